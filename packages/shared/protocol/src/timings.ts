/**
 * Reports how long hostd or an agent worked on a traced request. The report is in the header `server-timing` of its
 * answer, or in the last event of a run. Its text has the form of that header, in milliseconds since the request
 * arrived: `total;start=0;dur=12.345, slot;start=0.1;dur=0.2`. There is no schema, so that the agent's bundle need not
 * contain the library.
 */

/**
 * Request header that asks an agent for timings. The id of the trace is not sent, so that it stays outside of the
 * sandbox.
 */
export const TIMED_HEADER = 'cloche-timed';
export const TIMINGS_HEADER = 'server-timing';
/** Name of the timing of all the work. The other timings lie within it. */
export const TOTAL_TIMING = 'total';
/** Longest text with timings. A longer one is ignored. */
export const MAX_TIMINGS_CHARACTERS = 1024;

const MAX_TIMINGS = 20;
const ONE = /^([a-z]{1,16});start=(\d{1,9}(?:\.\d{1,3})?);dur=(\d{1,9}(?:\.\d{1,3})?)$/;

export interface Timing {
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
}

/** Measures the steps of work that began when it was made. */
export class Stopwatch {
  readonly #startedAt: number;
  readonly #steps: string[] = [];

  /** @param startedAt on the clock of `performance.now()` */
  constructor(startedAt = performance.now()) {
    this.#startedAt = startedAt;
  }

  /** Adds a step that ends now. */
  note(name: string, durationMs: number): void {
    const startMs = Math.max(0, performance.now() - this.#startedAt - durationMs);
    this.#steps.push(`${name};start=${startMs.toFixed(3)};dur=${durationMs.toFixed(3)}`);
  }

  /** Returns the timings up to now. */
  read(): string {
    const totalMs = performance.now() - this.#startedAt;
    return [`${TOTAL_TIMING};start=0;dur=${totalMs.toFixed(3)}`, ...this.#steps].join(', ');
  }
}

/** Reads timings of a part that may be hostile. Returns none for a text of another form. */
export function parseTimings(text: unknown): readonly Timing[] {
  if (typeof text !== 'string' || text.length > MAX_TIMINGS_CHARACTERS) return [];
  const matches = text.split(', ', MAX_TIMINGS + 1).map((one) => ONE.exec(one));
  if (matches.length > MAX_TIMINGS) return [];
  return matches.flatMap((match) =>
    match ? [{ name: match[1] ?? '', startMs: Number(match[2]), durationMs: Number(match[3]) }] : [],
  );
}
