import type { Peers } from './peers/peers.ts';
import type { Figures } from './statistics.ts';
import type { Subject } from './subject.ts';

export interface Bench {
  /** Started when it is first asked for, on the settings that a user has. */
  subject(): Promise<Subject>;
  readonly peers: Peers;
  /** Fewer rounds, so that all of it takes less than two minutes. */
  readonly quick: boolean;
  /** A line for whoever looks on. */
  say(line: string): void;
  /** `full` rounds, or `quick` ones. */
  rounds(full: number, quick: number): number;
}

export type Unit = 'ms' | '/s' | 'MB/s' | 'MiB' | 'sandboxes' | '×';

/** What is to be reached: of p50, or of what `of` names. */
export interface Target {
  readonly of?: 'p50' | 'p95' | 'p99';
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** One line of the table. */
export interface Row {
  readonly what: string;
  readonly unit: Unit;
  readonly subject: Figures;
  readonly targets?: readonly Target[];
  /** Undefined where it could not be started. */
  readonly peer?: { readonly name: string; readonly figures: Figures } | undefined;
  /** How many times as good as the peer it is to be. */
  readonly ratioAtLeast?: number;
  /** How many times the peer's it may take. */
  readonly ratioAtMost?: number;
  /** Warm-up and whatever else a reader has to know. */
  readonly note?: string;
}

/** Latency against live sandboxes, for the plot. */
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
  /** Too long for a quick look. */
  readonly fullOnly?: true;
  measure(bench: Bench): Promise<Outcome>;
}
