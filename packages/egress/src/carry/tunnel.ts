import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { collectsYoung } from './young-buffers.ts';

const IDLE_MS = 10 * 60 * 1000;
/** Each direction listens several times to both ends, beside those who carried them here. */
const MAX_LISTENERS = 32;

/** Carries bytes both ways until both ends are done, one breaks off, or nothing comes for ten minutes. */
export async function tunnel(one: Duplex & Idle, other: Duplex & Idle): Promise<void> {
  const end = () => {
    one.destroy();
    other.destroy();
  };
  setMaxListeners(MAX_LISTENERS, one, other);
  for (const side of [one, other]) side.setTimeout(IDLE_MS, end);
  try {
    await Promise.all([pipeline(collectsYoung(one), other), pipeline(collectsYoung(other), one)]);
  } catch {
    // Either side may break off; the other learns of it.
  } finally {
    end();
  }
}

interface Idle {
  setTimeout(ms: number, listener: () => void): unknown;
}
