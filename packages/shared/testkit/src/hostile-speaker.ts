import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { mutateBytes } from './mutations.ts';
import type { Random } from './random.ts';

/**
 * Plays a hostile peer. Waits for the first bytes, then sends one of `answers`, often mutated, in two pieces or only in
 * part. May then close or reset the connection.
 */
export function speakHostilely(socket: Socket, random: Random, answers: readonly [Buffer, ...Buffer[]]): void {
  socket
    .on('error', () => undefined)
    .once('data', async () => {
      const said = random.chance(0.3) ? random.pick(answers) : mutateBytes(random, random.pick(answers));
      const cut = random.below(said.length + 1);
      socket.write(said.subarray(0, cut));
      if (random.chance(0.5)) await delay(random.below(5));
      if (random.chance(0.7)) socket.write(said.subarray(cut));
      const leaving = random.next();
      // Node cannot reset a TLS connection.
      if (leaving < 0.3 && !('encrypted' in socket)) socket.resetAndDestroy();
      else if (leaving < 0.5) socket.destroy();
      else if (leaving < 0.7) socket.end();
    });
}
