import assert from 'node:assert/strict';

/** Hostile requests may keep a process from others this many times as long as honest ones. */
const TIMES = 5;
/** A wait that other processes may cause. */
const SHORT_MS = 40;
const ATTEMPTS = 3;

/**
 * Fails if others wait more than `TIMES` as long beside hostile requests as beside honest ones, at each of several
 * attempts. `quiet` and `busy` send the honest and the hostile ones, and return the longest wait in ms. Returns a
 * description of the attempts.
 */
export async function compareWaits(
  name: string,
  { quiet, busy }: { quiet: () => Promise<number>; busy: () => Promise<number> },
): Promise<string> {
  const seen: string[] = [];
  const described = () => `${name}: ${seen.join('; ')}`;
  for (let attempt = 1; ; attempt += 1) {
    const quietMs = await quiet();
    const busyMs = await busy();
    seen.push(`${busyMs.toFixed(1)} ms, honest ${quietMs.toFixed(1)} ms`);
    if (busyMs <= Math.max(TIMES * quietMs, SHORT_MS)) return described();
    assert.ok(attempt < ATTEMPTS, described());
  }
}
