import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { appOf } from '../../testing/app-of.ts';
import { SERVER_BOUNDS, type ServerBounds } from './open-server.ts';

const GET = 'GET /health HTTP/1.1\r\nhost: hostd\r\n\r\n';

async function listen(bounds: Partial<ServerBounds> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-hostd-socket-'));
  const path = join(folder, 'hostd.sock');
  const app = appOf({ bounds: { ...SERVER_BOUNDS, ...bounds } });
  await app.listen({ path });
  const sockets: Socket[] = [];
  return {
    connect(): Socket {
      const socket = connect(path);
      socket.on('error', () => undefined);
      sockets.push(socket);
      return socket;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await app.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

describe('the socket of hostd', () => {
  it('the socket of hostd answers as many requests as may wait on one connection, and closes it', async () => {
    await using hostd = await listen();
    const socket = hostd.connect();
    socket.write(GET.repeat(SERVER_BOUNDS.pending * 10));
    const answers = (await text(socket)).match(/HTTP\/1\.1 200/g) ?? [];
    assert.equal(answers.length, SERVER_BOUNDS.pending);
  });

  it('the socket of hostd closes a connection whose request does not arrive whole in its time', async () => {
    await using hostd = await listen({ requestMs: 100 });
    const socket = hostd.connect();
    socket.write('PUT /instances/sbx_1/1 HTTP/1.1\r\nhost: hostd\r\ncontent-length: 9\r\n\r\n{');
    socket.resume();
    await once(socket, 'close', { signal: AbortSignal.timeout(30_000) });
  });

  it('the socket of hostd closes connections beyond its limit, and serves the others', async () => {
    await using hostd = await listen({ connections: 2 });
    const [first, second] = [hostd.connect(), hostd.connect()];
    await Promise.all([first, second].map((socket) => once(socket, 'connect')));
    const third = hostd.connect().resume();
    await once(third, 'close');
    second.write(GET);
    const [answer] = await once(second, 'data');
    assert.match(String(answer), /^HTTP\/1\.1 200/);
  });
});
