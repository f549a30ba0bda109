/** What the kernel's two threads say to each other. Both ends are ours; user code holds neither. */
import type { KernelError } from '@cloche/protocol';

/** A cell, compiled and ready to run. */
export interface CompiledCell {
  /** An arrow function's source that takes the cell's support object and returns the value of its last expression. */
  source: string;
  /** From `source` back to what the user wrote: applied in order. */
  sourceMaps: string[];
  /** What to declare, once, in the scope that all cells share. A binding starts as the global of its name, if any. */
  bindings: { name: string; global: string }[];
}

/** Cells are numbered from 1 in the order in which they came; the number is also in the cell's file name. */
export type ToMain =
  | { type: 'run'; number: number; cell: CompiledCell }
  /** Answered with the same `sequence` as soon as the main thread's event loop turns. */
  | { type: 'ping'; sequence: number }
  /** Follows a termination of what the thread executed. */
  | { type: 'recover' };

export type FromMain =
  | { type: 'ready' }
  | { type: 'pong'; sequence: number }
  /** `forms` is JSON already, so that values that refuse to be serialised fail where the user can see it. */
  | { type: 'output'; number: number; role: 'result' | 'display'; forms: string }
  | { type: 'done'; number: number; error?: KernelError }
  | { type: 'exit'; number: number; exitCode: number };

export type Language = 'javascript' | 'typescript';

/** What the worker is started with. */
export interface WorkerSetup {
  language: Language;
  port: import('node:worker_threads').MessagePort;
  control: SharedArrayBuffer;
}

/** Cells of the shared `Int32Array` named `control`. */
export const Control = {
  /** The newest run that was stopped from outside; unlike a message it is seen by code that never yields. */
  stoppedRun: 0,
  /** The cost of outputs that were posted and not yet written to the socket; see `outputCost`. */
  pendingOutput: 1,
  /** Never changes: waiting on it lasts until the thread's execution is terminated. */
  never: 2,
} as const;

export const CONTROL_BYTES = 4 * Int32Array.BYTES_PER_ELEMENT;

/** What an output takes of memory while it waits, about: small ones cost more than their text. */
export function outputCost(forms: string): number {
  return forms.length + 1024;
}

/** How a cell is named in stack traces. */
export function cellFileName(number: number): string {
  return `cell-${number}`;
}
