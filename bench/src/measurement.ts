import type { Peers } from './peers/peers.ts';
import type { Figures } from './statistics.ts';
import type { Subject } from './subject.ts';

export interface Bench {
  /** Returns the service under test, with a user's default settings. Started by the first call. */
  subject(): Promise<Subject>;
  readonly peers: Peers;
  /** Whether to use fewer rounds, so that the whole benchmark takes less than two minutes. */
  readonly quick: boolean;
  /** Prints a line of progress. */
  say(line: string): void;
  /** Returns `quick` in a quick benchmark, otherwise `full`. */
  rounds(full: number, quick: number): number;
}

export type Unit = 'ms' | '/s' | 'MB/s' | 'MiB' | 'sandboxes' | '×';

/** Value that a row has to reach, for its p50 or the percentile that `of` names. */
export interface Target {
  readonly of?: 'p50' | 'p95' | 'p99';
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** A line of the results table. */
export interface Row {
  readonly what: string;
  readonly unit: Unit;
  readonly subject: Figures;
  readonly targets?: readonly Target[];
  /** Undefined where the peer could not be started. */
  readonly peer?: { readonly name: string; readonly figures: Figures } | undefined;
  /** How many times as good as the peer Cloche has to be. */
  readonly ratioAtLeast?: number;
  /** How many times the peer's value Cloche may take. */
  readonly ratioAtMost?: number;
  /** Warm-up and other facts that a reader has to know. */
  readonly note?: string;
}

/** Latency by number of live sandboxes, for the plot. */
export interface Curve {
  readonly title: string;
  readonly points: readonly { readonly live: number; readonly ms: number; readonly p95?: number }[];
}

export interface Outcome {
  readonly rows: readonly Row[];
  readonly curves?: readonly Curve[];
}

export interface Measurement {
  readonly name: string;
  readonly title: string;
  /** Left out of a quick benchmark, because it takes too long. */
  readonly fullOnly?: true;
  measure(bench: Bench): Promise<Outcome>;
}
