import { compileWithEsbuild } from '../esbuild-program.ts';
import type { JavaScript } from './javascript.ts';
import { offsetOf, utf16Length } from './text-offset.ts';

const SYNTAX_ERROR = /\[ERROR\] (.*)\n\n +<stdin>:(\d+):(\d+):/;

export type Lowered =
  | { status: 'lowered'; javascript: JavaScript }
  | { status: 'invalid'; message: string; offset: number }
  /** The compiler could not run, for example for lack of memory. */
  | { status: 'failed'; reason: string };

/**
 * Returns whether unparsable code may become valid when decorators and `accessor` are lowered. May return false
 * positives.
 */
export function mayHaveDecorators(code: string): boolean {
  return /@|\baccessor\b/.test(code);
}

/** Compiles standard decorators, which Node does not support yet, and `accessor` to plain classes. */
export function lowerDecorators({ code, sourceMaps }: JavaScript): Lowered {
  const compiled = compileWithEsbuild(code, ['--loader=js']);
  if (compiled.status === 'failed') return failure(code, compiled.printed, compiled.reason);
  return {
    status: 'lowered',
    javascript: { code: compiled.code, sourceMaps: [compiled.sourceMap, ...sourceMaps] },
  };
}

function failure(code: string, printed: string, reason: string): Lowered {
  const [, message, lineNumber, byteColumn] = SYNTAX_ERROR.exec(printed) ?? [];
  if (message === undefined) return { status: 'failed', reason };
  const line = Number(lineNumber) - 1;
  const column = utf16Length(code.split('\n')[line] ?? '', Number(byteColumn));
  return { status: 'invalid', message, offset: offsetOf(code, { line, column }) };
}

const IDENTIFIER = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/gu;

/** Returns a function that recognizes names added by compiling: those that do not occur in `written`. */
export function addedNames(written: string): (name: string) => boolean {
  const words = new Set(written.match(IDENTIFIER));
  return (name) => !words.has(name);
}
