import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os';
import type { Measurement, Outcome } from './measurement.ts';

export interface StoredOutcome extends Outcome {
  readonly name: string;
  readonly title: string;
  readonly at: string;
  readonly load: string;
  readonly quick: boolean;
}

export interface Results {
  readonly machine: Readonly<Record<string, string>>;
  readonly outcomes: readonly StoredOutcome[];
}

export function describeMachine(versions: Readonly<Record<string, string>>): Record<string, string> {
  return {
    machine: `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB`,
    kernel: `Linux ${release()}`,
    node: process.version,
    ...versions,
  };
}

/** Adds a measurement's metadata to its outcome; `load` is the load before the measurement began. */
export function stored({ name, title }: Measurement, outcome: Outcome, load: string, quick: boolean): StoredOutcome {
  return { name, title, at: new Date().toISOString().slice(0, 16).replace('T', ' '), load, quick, ...outcome };
}

export function currentLoad(): string {
  return loadavg()[0]?.toFixed(1) ?? '?';
}

/** Replaces earlier outcomes by new ones of the same name, in the order of `names`. */
export function merge(earlier: Results | undefined, now: Results, names: readonly string[]): Results {
  const all = new Map([...(earlier?.outcomes ?? []), ...now.outcomes].map((outcome) => [outcome.name, outcome]));
  return {
    machine: { ...earlier?.machine, ...now.machine },
    outcomes: names.flatMap((name) => all.get(name) ?? []),
  };
}

export function readResults(file: string): Results | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
