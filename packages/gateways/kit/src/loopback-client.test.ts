import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { CALLER_FIELD } from '@cloche/node-support';
import { isClocheError } from '@cloche/sdk';
import { loopbackClient, loopbackFetchFor } from './loopback-client.ts';

describe('a client of the own server', () => {
  let server: Server;
  let url: string;
  let connections = 0;
  before(async () => {
    server = createServer((request, response) => {
      request.resume();
      if (request.url?.endsWith('/stream')) {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
      } else if (request.url?.startsWith('/v1/templates')) {
        response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '7' });
        response.end('{"error":{"code":"rate_limited","message":"later"}}');
      } else response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    });
    server.on('connection', () => connections++);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  it('a client of the own server reads answers and refusals', async () => {
    const client = loopbackClient(url, 'key', {});
    assert.deepEqual(await client.sandboxes.list(), []);
    await assert.rejects(
      client.templates.list(),
      (error) => isClocheError(error, 'rate_limited') && error.retryAfterMs === 7000 && error.status === 429,
    );
  });

  it('a client of the own server sends texts and bytes on one connection, in the name of the client that it serves', async () => {
    const send = loopbackFetchFor({ [CALLER_FIELD]: 'signed' });
    const before = connections;
    for (const body of [undefined, 'text', new TextEncoder().encode('bytes')]) {
      const asked = once(server, 'request');
      const sent = send(url, { method: 'POST', ...(body !== undefined && { body }) });
      const [request] = (await asked) as [IncomingMessage];
      assert.equal(request.headers[CALLER_FIELD], 'signed');
      assert.equal(await (await sent).text(), '{"data":[]}');
    }
    assert.ok(connections - before <= 1);
  });

  it('a client of the own server ends the request when its caller aborts a stream', async () => {
    const stop = new AbortController();
    const body = { code: '1', language: 'python' as const };
    const call = { params: { sandboxId: 'sbx_1' as never }, body, signal: stop.signal };
    const next = loopbackClient(url, 'key', {}).stream('streamCode', call).next();
    const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
    const closed = once(response, 'close');
    stop.abort();
    await assert.rejects(next);
    await closed;
  });

  it('says that a server is not there', async () => {
    const client = loopbackClient('http://127.0.0.1:1', 'key', {});
    await assert.rejects(client.sandboxes.list(), (error) => isClocheError(error, 'unreachable'));
  });
});
