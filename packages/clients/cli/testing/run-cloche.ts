import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { compileCache } from '@cloche/testkit/compile-cache';

const BIN = fileURLToPath(new URL('../bin/cloche.mjs', import.meta.url));

export interface Invocation {
  env?: Record<string, string>;
  input?: string;
  /** Options for Node.js itself. */
  nodeArgs?: readonly string[];
}
export interface Outcome {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Starts the real command line as a child process, without this process's `CLOCHE_*` variables and without a client
 * file.
 */
export function startCloche(args: readonly string[], { env = {}, nodeArgs = [] }: Invocation = {}) {
  return spawn(process.execPath, [...nodeArgs, BIN, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: '/nonexistent', XDG_CACHE_HOME: '/dev/null', ...compileCache(), ...env },
  });
}

export async function runCloche(args: readonly string[], invocation: Invocation = {}): Promise<Outcome> {
  const child = startCloche(args, invocation);
  // A command that does not read its input may exit before the input is written.
  child.stdin.on('error', () => {});
  child.stdin.end(invocation.input ?? '');
  const [stdout, stderr, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), exitOf(child)]);
  return { exitCode, stdout, stderr };
}

/** Resolves with the exit code, as a shell gives it: 128 and the number of the signal that ended the process. */
export async function exitOf(child: ChildProcess): Promise<number | null> {
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return signal === null ? code : 128 + (constants.signals[signal] ?? 0);
}
