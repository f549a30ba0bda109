import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { waitForAgent } from './wait-for-agent.ts';

async function listening(serve: (socket: Socket) => void) {
  const dir = mkdtempSync(join(tmpdir(), 'cloche-answers-'));
  const path = join(dir, 'agent.sock');
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    serve(socket);
  }).listen(path);
  await once(server, 'listening');
  return {
    path,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      rmSync(dir, { recursive: true });
    },
  };
}

const patience = () => AbortSignal.timeout(60_000);

describe('the check whether an agent answers', () => {
  test('ends with the first byte of an answer, whatever its content', async () => {
    using agent = await listening((socket) => socket.once('data', () => socket.write('?')));
    await waitForAgent(agent.path, patience());
  });

  test('the check whether an agent answers waits for a late answer, also through a relay that closes both directions at once', async () => {
    using agent = await listening((socket) => {
      socket.once('data', async () => {
        for (let turn = 0; turn < 10; turn += 1) await setImmediate();
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
      });
    });
    await waitForAgent(agent.path, patience());
  });

  test('the check whether an agent answers fails when the connection closes without an answer, or cannot be made', async () => {
    using agent = await listening((socket) => socket.destroy());
    await assert.rejects(waitForAgent(agent.path, patience()));
    await assert.rejects(waitForAgent(`${agent.path}.none`, patience()), { code: 'ENOENT' });
  });

  test('the check whether an agent answers ends when its signal aborts', async () => {
    using agent = await listening(() => {});
    const abort = new AbortController();
    const look = waitForAgent(agent.path, abort.signal);
    abort.abort(new Error('given up'));
    await assert.rejects(look, /given up/);
    await assert.rejects(waitForAgent(agent.path, abort.signal), /given up/);
  });
});
