import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { collectYoungBuffers } from './young-buffers.ts';

const IDLE_MS = 10 * 60 * 1000;
/** Each pipeline adds several listeners to both ends, in addition to those of the code that created them. */
const MAX_LISTENERS = 32;

/** Copies bytes in both directions until both sides have ended, one fails, or nothing arrives for ten minutes. */
export async function tunnel(one: Duplex & Idle, other: Duplex & Idle): Promise<void> {
  const end = () => {
    one.destroy();
    other.destroy();
  };
  setMaxListeners(MAX_LISTENERS, one, other);
  for (const side of [one, other]) side.setTimeout(IDLE_MS, end);
  try {
    await Promise.all([pipeline(collectYoungBuffers(one), other), pipeline(collectYoungBuffers(other), one)]);
  } catch {
    // One side failed. `end` closes the other.
  } finally {
    end();
  }
}

interface Idle {
  setTimeout(ms: number, listener: () => void): unknown;
}
