import { pause } from './back-off.ts';

/** Share of one processor below which work counts as idle. On a slow machine a starting process gets 7 % at least. */
const LEAST_SHARE = 0.05;

/**
 * Resolves when hardly any processor time was used during a window, after `mostWindows`, or when the signal aborts. For
 * starts, which take seconds of processor time: on a small or busy machine these can be minutes.
 *
 * @param usedMs returns the processor time that the work has used so far, in milliseconds
 */
export async function untilIdle(
  usedMs: () => number,
  { windowMs, mostWindows }: { windowMs: number; mostWindows: number },
  signal: AbortSignal,
): Promise<void> {
  let before = usedMs();
  for (let window = 0; window < mostWindows && !signal.aborted; window += 1) {
    await pause(windowMs, signal);
    const now = usedMs();
    if (now - before < windowMs * LEAST_SHARE) return;
    before = now;
  }
}
