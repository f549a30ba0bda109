import { parseTimings, TOTAL_TIMING } from '@cloche/protocol';
import type { RemotePart } from '@cloche/runtime/tracing';

/** Steps that a part may report. Others are ignored, so that a hostile agent cannot choose names. */
const STEPS: Readonly<Record<RemotePart, ReadonlySet<string>>> = {
  host: new Set([
    'claim',
    'queue',
    'intent',
    'slot',
    'disk',
    'layers',
    'root',
    'bundle',
    'cgroup',
    'create',
    'network',
    'start',
    'detach',
    'record',
  ]),
  agent: new Set(['open', 'queue', 'execute']),
};

export interface SpanTimes {
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
}

/**
 * Returns spans for the work that a part has reported and for its steps, on the server's clock. The work is placed in
 * the middle of the server's wait for it, on the assumption that both ways take equally long. No span lies outside of
 * the wait.
 *
 * @param timings text that may be hostile
 * @param wait from the request to the answer
 */
export function remoteSpans(part: RemotePart, timings: unknown, wait: Omit<SpanTimes, 'name'>): readonly SpanTimes[] {
  const told = parseTimings(timings);
  const total = told.find(({ name }) => name === TOTAL_TIMING);
  if (!total) return [];
  const waitedMs = wait.endMs - wait.startMs;
  const totalMs = Math.min(total.durationMs, waitedMs);
  const startMs = wait.startMs + (waitedMs - totalMs) / 2;
  const at = (ms: number) => startMs + Math.min(ms, totalMs);
  const steps = told.filter(({ name }) => STEPS[part].has(name));
  return [
    { name: TOTAL_TIMING, startMs, endMs: at(totalMs) },
    ...steps.map(({ name, startMs, durationMs }) => ({ name, startMs: at(startMs), endMs: at(startMs + durationMs) })),
  ];
}
