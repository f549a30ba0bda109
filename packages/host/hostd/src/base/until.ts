import { setTimeout as delay } from 'node:timers/promises';

/** The kernel removes resources shortly after the request and sends no event when it is done, hence polling. */
const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 50;
const DEADLINE_MS = 30_000;

/** Polls `isDone` at growing intervals until it is true; rejects with `what` after `DEADLINE_MS`. */
export async function until(what: string, isDone: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  for (let pause = FIRST_PAUSE_MS; !(await isDone()); pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
    if (performance.now() > deadline) throw new Error(`timed out after ${DEADLINE_MS} ms waiting until ${what}`);
    await delay(pause);
  }
}
