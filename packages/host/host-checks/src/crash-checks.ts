import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finding, ok, warning } from './finding.ts';

const PROC_SYS = '/proc/sys';
/**
 * Limit of concurrent crash handlers where a pipe has none; crashes beyond it start no handler. The same value as
 * systemd's.
 */
const MAX_PARALLEL_HANDLERS = 16;

/**
 * Checks for a crash handler. `RLIMIT_CORE` 0 prevents core files but not handlers: the kernel starts one for each
 * crash, as root of the host, with input that the crashed process chose.
 */
export async function checkCrashHandler(root = PROC_SYS): Promise<Finding> {
  const name = 'crash handler';
  const pattern = await read(root, 'kernel/core_pattern');
  if (!isHandler(pattern)) return ok(name, pattern === '' ? 'none' : `none, files named ${pattern}`);
  const limit = await read(root, 'kernel/core_pipe_limit');
  const found = `${pattern}, ${limit === '0' ? 'any number' : limit} at once`;
  const remedy =
    'Each crash in a sandbox starts this program as root of the host. Run `sysctl -w kernel.core_pattern=core` and keep it in /etc/sysctl.d, or accept it: starting Cloche limits how many run at once.';
  return warning(name, found, remedy);
}

/** Limits concurrent crash handlers where a handler has no limit. Returns a phrase if it did. */
export async function limitCrashHandlers(root = PROC_SYS): Promise<string[]> {
  const [pattern, limit] = [await read(root, 'kernel/core_pattern'), await read(root, 'kernel/core_pipe_limit')];
  if (!isHandler(pattern) || limit !== '0') return [];
  const name = 'kernel.core_pipe_limit';
  return writeFile(join(root, 'kernel/core_pipe_limit'), `${MAX_PARALLEL_HANDLERS}\n`).then(
    () => [`${name} 0 → ${MAX_PARALLEL_HANDLERS}`],
    () => [`${name} stays 0`],
  );
}

/**
 * Checks `fs.suid_dumpable`. With 1, a sandbox's root could trace a kernel while it is forked into the sandbox, so
 * hostd forks none.
 */
export async function checkSetIdDumps(root = PROC_SYS): Promise<Finding> {
  const name = 'set-id dumps';
  const value = await read(root, 'fs/suid_dumpable');
  if (value !== '1') return ok(name, value === '' ? 'off' : `fs.suid_dumpable ${value}`);
  const remedy =
    'Python kernels are started in each sandbox instead of forked, which takes several times as long. Run `sysctl -w fs.suid_dumpable=0`.';
  return warning(name, 'fs.suid_dumpable 1', remedy);
}

/** Returns whether the pattern names a program that receives the dump (`|`) or a socket (`@`). */
function isHandler(pattern: string): boolean {
  return pattern.startsWith('|') || pattern.startsWith('@');
}

async function read(root: string, file: string): Promise<string> {
  return (await readFile(join(root, file), 'utf8').catch(() => '')).trim();
}
