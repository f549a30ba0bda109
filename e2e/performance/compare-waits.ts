import assert from 'node:assert/strict';

/** How many times as long as honest requests hostile ones may keep a process from others. */
const TIMES = 5;
/** A wait that other processes may cause. */
const SHORT_MS = 40;
const ATTEMPTS = 3;

/**
 * Fails if others wait more than `times` as long beside hostile requests as beside honest ones, at each of several
 * attempts. `quiet` and `busy` send the honest and the hostile ones, and return the longest wait in ms. Returns a
 * description of the attempts.
 */
export async function compareWaits(
  name: string,
  { quiet, busy, times = TIMES }: { quiet: () => Promise<number>; busy: () => Promise<number>; times?: number },
): Promise<string> {
  const seen: string[] = [];
  const described = () => `${name}: ${seen.join('; ')}`;
  for (let attempt = 1; ; attempt += 1) {
    const quietMs = await quiet();
    const busyMs = await busy();
    seen.push(`${busyMs.toFixed(1)} ms, honest ${quietMs.toFixed(1)} ms`);
    if (busyMs <= Math.max(times * quietMs, SHORT_MS)) return described();
    assert.ok(attempt < ATTEMPTS, described());
  }
}
