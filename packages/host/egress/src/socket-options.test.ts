import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { listening, portOf } from '../testing/test-servers.ts';
import { boundBuffers } from './socket-options.ts';

const BUFFERS = { receiveBytes: 64 * 1024, sendBytes: 128 * 1024 };
const OFFERED = Buffer.alloc(64 * 1024);

/** Returns how many unread bytes two kernel buffers hold. */
async function held(isBounded: boolean): Promise<number> {
  const server = await listening(createServer({ pauseOnConnect: true }));
  const near = connect(portOf(server), '127.0.0.1').on('error', () => {});
  const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [[Socket], unknown];
  if (isBounded) for (const socket of [near, far]) boundBuffers(socket, BUFFERS);
  let taken = 0;
  for (let isTaken = true; isTaken; ) {
    near.write(OFFERED, () => {
      taken += OFFERED.length;
    });
    const earlier = taken;
    await delay(50);
    isTaken = taken > earlier && taken < 64 * OFFERED.length;
  }
  for (const socket of [near, far]) socket.destroy();
  server.close();
  return taken;
}

test('bounded buffers hold no more than they may, where others grow', async () => {
  assert.ok((await held(true)) <= BUFFERS.receiveBytes + BUFFERS.sendBytes);
  assert.ok((await held(false)) > 2 * (BUFFERS.receiveBytes + BUFFERS.sendBytes));
});
