import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { EgressClient } from './egress-client.ts';

it('a request is sent again, once, if the kept connection ends before it is answered', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-egress-client-'));
  const socketPath = join(folder, 'socket');
  /** Requests that each connection answers before the next one ends it. */
  const answers = [1, 1, 0];
  const asked: string[] = [];
  const left = new WeakMap<object, number>();
  const server = createServer((request, response) => {
    const { socket } = request;
    const mayAnswer = left.get(socket) ?? answers.shift() ?? 0;
    left.set(socket, mayAnswer - 1);
    asked.push(`${request.method} ${request.url}`);
    if (mayAnswer > 0) response.end('counted 1');
    else socket.destroy();
  });
  await once(server.listen(socketPath), 'listening');
  const client = new EgressClient(socketPath);
  try {
    assert.equal(await client.metrics(), 'counted 1');
    assert.equal(await client.metrics(), 'counted 1');
    await assert.rejects(client.delete('198.18.0.1'), { name: 'Error' });
    assert.deepEqual(asked, [
      ...Array(3).fill('GET /metrics'),
      'DELETE /sandboxes/198.18.0.1',
      'DELETE /sandboxes/198.18.0.1',
    ]);
  } finally {
    client.close();
    server.close();
    rmSync(folder, { recursive: true });
  }
});
