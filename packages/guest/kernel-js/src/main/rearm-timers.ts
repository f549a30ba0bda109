/** Timer lists to create, more than programs usually have. Node has one list for each duration in milliseconds. */
const DURATIONS = 20;

/**
 * Restores timers after a termination. Node keeps a list of timers for each duration, and requests a wake-up when it
 * creates a list. A termination inside a timer leaves the lists without a wake-up. Creating new lists wakes all of
 * them.
 */
export function rearmTimers(): void {
  for (let durationMs = 1; durationMs <= DURATIONS; durationMs += 1) setTimeout(() => {}, durationMs);
}
