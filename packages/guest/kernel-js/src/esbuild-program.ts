import { join } from 'node:path';

/** Longer than compiling any cell or file takes, even with little CPU time. The thread is blocked meanwhile. */
const TIMEOUT_MS = 10_000;

const PROGRAM = join(import.meta.dirname, 'bin/esbuild');

const OPTIONS = [
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

export type Compiled =
  | { status: 'compiled'; code: string; sourceMap: string }
  /** `printed` has the error of invalid code. Otherwise the compiler could not run, for example for lack of memory. */
  | { status: 'failed'; printed: string; reason: string };

/**
 * Compiles code with esbuild, including decorators, which Node does not support yet. Runs it as a process of its own,
 * because little code needs it and it is larger than the kernel.
 */
export function compileWithEsbuild(code: string, options: readonly string[]): Compiled {
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  const { error, signal, status, stdout, stderr } = spawnSync(PROGRAM, [...OPTIONS, ...options], {
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
  if (error) return { status: 'failed', printed: '', reason: error.message };
  if (status !== 0) return { status: 'failed', printed: stderr, reason: `it ended with ${signal ?? status}` };
  const [comment, map] = SOURCE_MAP.exec(stdout) ?? [];
  if (comment === undefined || map === undefined) {
    return { status: 'failed', printed: '', reason: 'its output has no source map' };
  }
  return {
    status: 'compiled',
    code: stdout.slice(0, -comment.length),
    sourceMap: Buffer.from(map, 'base64').toString(),
  };
}
