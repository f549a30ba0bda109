/** Messages between the kernel's two threads. Both sides are trusted: user code has access to neither port. */
import type { KernelError } from '@cloche/protocol';

/** A cell, compiled and ready to run. */
export interface CompiledCell {
  /** Source of an arrow function that takes the cell's support object and returns the value of the last expression. */
  source: string;
  /** Source maps from `source` to the user's code, to be applied in order. */
  sourceMaps: string[];
  /** Names to declare, once, in the scope that all cells share. A name starts with the value of its global, if any. */
  bindings: { name: string; global: string }[];
}

/** Messages to the main thread. Cells are numbered from 1, in order; the number is also in the cell's file name. */
export type ToMain =
  | { type: 'run'; number: number; cell: CompiledCell }
  /** Answered by a `pong` with the same `sequence`, as soon as the main thread's event loop turns. */
  | { type: 'ping'; sequence: number }
  /** Sent after the main thread's execution was terminated. */
  | { type: 'recover' }
  | { type: 'look'; look: Look };

/** A look at the values of cells. Answered by `seen` with the same `sequence`. */
export interface Look {
  sequence: number;
  /** Names from a variable to the value, as in `a.b.c`. */
  path: string[];
  /** Begin of the names that are wanted. Without it, the value itself is. */
  prefix?: string;
}

/** Result of an inspection. Empty if finding out would need to run code of a cell, such as a getter. */
export interface Seen {
  sequence: number;
  names?: string[];
  value?: SeenValue;
}

export interface SeenValue {
  /** As `typeof` names it, or `null` or `proxy`. */
  type: string;
  /** Text of a primitive value. */
  value?: string;
  /** Text of a function. */
  source?: string;
  className?: string;
  /** Names of an object's own properties. */
  keys?: string[];
}

export type FromMain =
  | { type: 'ready' }
  | { type: 'pong'; sequence: number }
  /** `forms` is already JSON, so that a serialization error occurs in the run, where the user sees it. */
  | { type: 'output'; number: number; role: 'result' | 'display'; forms: string }
  | { type: 'done'; number: number; error?: KernelError }
  | { type: 'exit'; number: number; exitCode: number }
  | { type: 'seen'; seen: Seen };

export type Language = 'javascript' | 'typescript';

/** Data that the worker is started with. */
export interface WorkerSetup {
  language: Language;
  port: import('node:worker_threads').MessagePort;
  control: SharedArrayBuffer;
}

/** Indexes into the shared `Int32Array` named `control`. */
export const Control = {
  /** Number of the newest stopped run. Unlike a message, it is visible to code that never yields. */
  stoppedRun: 0,
  /** Cost of outputs that were posted but not yet written to the socket; see `outputCost`. */
  pendingOutput: 1,
  /** Never changes. Waiting for it lasts until the thread's execution is terminated. */
  never: 2,
} as const;

export const CONTROL_BYTES = 4 * Int32Array.BYTES_PER_ELEMENT;

/** Returns the approximate memory that a waiting output takes. Small ones take more than their text. */
export function outputCost(forms: string): number {
  return forms.length + 1024;
}

/**
 * Returns the name of the binding for a cell's variable whose name is also a global's. The added character is invisible
 * and allowed in identifiers, so error messages and function names look unchanged.
 */
export function aliasOf(name: string): string {
  return `${name}${ALIAS_MARK}`;
}

/** Returns the name that a cell has written for a binding. */
export function writtenName(name: string): string {
  return name.endsWith(ALIAS_MARK) ? name.slice(0, -ALIAS_MARK.length) : name;
}

const ALIAS_MARK = '\u200c';

/** Returns the name of a cell in stack traces. */
export function cellFileName(number: number): string {
  return `cell-${number}`;
}
