import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { frame, readFrames } from './dns-frames.ts';

test('messages are read whole, however the connection cuts them', async () => {
  const messages = ['one', '', 'three'.repeat(1000)].map((message) => Buffer.from(message));
  const bytes = Buffer.concat(messages.map(frame));
  const server = createServer((socket) => {
    for (const cut of [bytes.subarray(0, 1), bytes.subarray(1, 8), bytes.subarray(8)]) socket.write(cut);
    socket.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address && typeof address === 'object');

  const read: string[] = [];
  for await (const message of readFrames(connect(address.port, '127.0.0.1'))) read.push(message.toString());
  assert.deepEqual(read, messages.map(String));
  server.close();
});
