import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finding, ok, warning } from './finding.ts';

const PROC_SYS = '/proc/sys';
/** Crash handlers at once where a pipe has no limit; further crashes start none. As systemd sets it. */
const HANDLERS_AT_ONCE = 16;

/**
 * `RLIMIT_CORE` 0 keeps files of core dumps away, but not handlers: the kernel starts one for each crash, as root of the
 * host, with what the crashed process chose as its input.
 */
export async function checkCrashHandler(root = PROC_SYS): Promise<Finding> {
  const name = 'crash handler';
  const pattern = await read(root, 'kernel/core_pattern');
  if (!isHandler(pattern)) return ok(name, pattern === '' ? 'none' : `none, files named ${pattern}`);
  const limit = await read(root, 'kernel/core_pipe_limit');
  const found = `${pattern}, ${limit === '0' ? 'any number' : limit} at once`;
  const remedy =
    'Each crash in a sandbox starts this program as root of the host. Run `sysctl -w kernel.core_pattern=core` and keep it in /etc/sysctl.d, or accept it: `npm start` limits how many run at once.';
  return warning(name, found, remedy);
}

/** Bounds how many crash handlers run at once, where there is one without a bound. Returns a phrase if it did. */
export async function boundCrashHandlers(root = PROC_SYS): Promise<string[]> {
  const [pattern, limit] = [await read(root, 'kernel/core_pattern'), await read(root, 'kernel/core_pipe_limit')];
  if (!isHandler(pattern) || limit !== '0') return [];
  const name = 'kernel.core_pipe_limit';
  return writeFile(join(root, 'kernel/core_pipe_limit'), `${HANDLERS_AT_ONCE}\n`).then(
    () => [`${name} 0 → ${HANDLERS_AT_ONCE}`],
    () => [`${name} stays 0`],
  );
}

/** With 1 a forked kernel could be traced by root of its sandbox on its way there, so hostd forks none. */
export async function checkSetIdDumps(root = PROC_SYS): Promise<Finding> {
  const name = 'set-id dumps';
  const value = await read(root, 'fs/suid_dumpable');
  if (value !== '1') return ok(name, value === '' ? 'off' : `fs.suid_dumpable ${value}`);
  const remedy =
    'Python kernels are started in each sandbox instead of forked, which takes several times as long. Run `sysctl -w fs.suid_dumpable=0`.';
  return warning(name, 'fs.suid_dumpable 1', remedy);
}

/** A program that is given the dump (`|`), or a socket that it is sent to (`@`). */
function isHandler(pattern: string): boolean {
  return pattern.startsWith('|') || pattern.startsWith('@');
}

async function read(root: string, file: string): Promise<string> {
  return (await readFile(join(root, file), 'utf8').catch(() => '')).trim();
}
