import { eventually as holds } from '@cloche/testkit/eventually';

/** Waits until `condition` holds. The error of a timeout quotes it. */
export function eventually(condition: () => Promise<boolean> | boolean, withinMs = 60_000): Promise<void> {
  return holds(condition, { within: withinMs, because: String(condition) });
}
