/** More than anyone has lists of timers for, one for each duration in milliseconds. */
const DURATIONS = 20;

/**
 * Node keeps a list of timers for each duration and asks for a wake-up when it makes a new list. A termination in a
 * timer leaves the lists without one. Making a new list wakes all of them.
 */
export function rearmTimers(): void {
  for (let durationMs = 1; durationMs <= DURATIONS; durationMs += 1) setTimeout(() => {}, durationMs);
}
