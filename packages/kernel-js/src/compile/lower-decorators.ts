import { join } from 'node:path';
import type { JavaScript } from './javascript.ts';
import { offsetOf, utf16Length } from './text-offset.ts';

/** Longer than compiling any cell takes, even with little CPU time. The worker is blocked meanwhile. */
const TIMEOUT_MS = 10_000;

const PROGRAM = join(import.meta.dirname, 'bin/esbuild');

const OPTIONS = [
  '--loader=js',
  '--target=esnext',
  '--supported:decorators=false',
  '--keep-names',
  '--charset=utf8',
  '--legal-comments=none',
  '--sourcemap=inline',
  '--sources-content=false',
  '--log-level=error',
  '--log-limit=1',
  '--color=false',
];

const SOURCE_MAP = /\/\/# sourceMappingURL=data:application\/json;base64,(\S+)\s*$/;
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

/**
 * Compiles standard decorators, which Node does not support yet, and `accessor` to plain classes. Runs the compiler as
 * a process of its own, because few cells need it and it is larger than the kernel.
 */
export function lowerDecorators({ code, sourceMaps }: JavaScript): Lowered {
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  const { error, signal, status, stdout, stderr } = spawnSync(PROGRAM, OPTIONS, {
    input: code,
    encoding: 'utf8',
    cwd: '/',
    // One thread is as fast as many for this, and a sandbox has few threads to spare.
    env: { GOMAXPROCS: '1' },
    maxBuffer: Number.POSITIVE_INFINITY,
    timeout: TIMEOUT_MS,
    // SIGKILL, because user code may have stopped the process with SIGSTOP.
    killSignal: 'SIGKILL',
  });
  if (error) return { status: 'failed', reason: error.message };
  if (status !== 0) return failure(code, stderr, `it ended with ${signal ?? status}`);
  const [comment, map] = SOURCE_MAP.exec(stdout) ?? [];
  if (comment === undefined || map === undefined) return { status: 'failed', reason: 'its output has no source map' };
  return {
    status: 'lowered',
    javascript: {
      code: stdout.slice(0, -comment.length),
      sourceMaps: [Buffer.from(map, 'base64').toString(), ...sourceMaps],
    },
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
