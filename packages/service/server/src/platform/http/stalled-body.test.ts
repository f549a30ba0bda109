import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { endStalled } from './stalled-body.ts';
import { isUploading } from './uploads.ts';

const STALL_MS = 200;

let server: Server;
before(async () => {
  server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
after(() => {
  server.closeAllConnections();
  server.close();
});

/** Begins an upload, of which the server reads what the test reads. */
async function upload(first: Buffer) {
  const { port } = server.address() as AddressInfo;
  const sent = request({ port, method: 'POST', headers: { 'content-length': 2 ** 30 } });
  sent.on('error', () => undefined).write(first);
  const [received, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
  received.on('error', () => undefined);
  endStalled(received, response, STALL_MS);
  return { sent, received, response };
}

describe('the body of an upload', () => {
  it('the body of an upload may take any time while it comes, and its connection ends when it comes no more', async () => {
    const { sent, received, response } = await upload(Buffer.from('x'));
    received.resume();
    assert.ok(isUploading(received.socket));
    const began = performance.now();
    const comes = () => {
      sent.write('x');
      return performance.now() - began > 3 * STALL_MS;
    };
    await eventually(comes, { because: 'the time of three stalls is over' });
    assert.equal(response.destroyed, false);
    await once(response, 'close');
    assert.equal(isUploading(received.socket), false);
  });

  it('the body of an upload does not stall while the server reads none of it', async () => {
    const { sent, received, response } = await upload(Buffer.alloc(2 ** 20));
    const began = performance.now();
    await eventually(() => performance.now() - began > 3 * STALL_MS, { because: 'the time of a stall is over' });
    assert.equal(response.destroyed, false);
    received.resume();
    await once(response, 'close');
    sent.destroy();
  });
});
