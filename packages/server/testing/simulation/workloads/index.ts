/** The workloads, and which of them a seed has. */
import type { OpenWorkload } from '../workload.ts';
import { openCodeRuns } from './code-runs.ts';
import { openCommands } from './commands.ts';

export const WORKLOADS = {
  'code runs': openCodeRuns,
  commands: openCommands,
} as const satisfies Record<string, OpenWorkload>;

export type WorkloadName = keyof typeof WORKLOADS;

export function isWorkload(name: string): name is WorkloadName {
  return Object.hasOwn(WORKLOADS, name);
}

/** Gives every workload as many seeds as the others, of any range. */
export function workloadOf(seed: number): WorkloadName {
  // Sound: the keys of an object whose type names them all.
  const names = Object.keys(WORKLOADS) as [WorkloadName, ...WorkloadName[]];
  return names[seed % names.length] ?? names[0];
}
