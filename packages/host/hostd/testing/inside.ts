import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { SLOWNESS } from '@cloche/testkit/eventually';
import type { HostdConfig } from '../src/host/config.ts';

const execute = promisify(execFile);

export interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Returns the host's process id of a sandbox's first process. */
export function initPid(config: HostdConfig, sandboxId: string): number {
  const { record } = recordsOnDisk(config).find((one) => one.record.sandboxId === sandboxId) ?? {};
  if (!record) throw new Error(`no instance of ${sandboxId}`);
  return record.init.pid;
}

/** Reads hostd's records of its instances. */
export function recordsOnDisk({ hostdDir }: HostdConfig) {
  return globSync('instances/*/instance.json', { cwd: hostdDir }).flatMap((file) => {
    const text = readIfPresent(join(hostdDir, file));
    return text === undefined ? [] : [{ key: basename(dirname(file)), record: JSON.parse(text) }];
  });
}

/** Reads a record; returns undefined if it is gone, because unclaimed instances are removed at any time. */
function readIfPresent(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Runs a shell script as root of a sandbox, in all of its namespaces, or through a runtime with its own kernel. */
export async function runInside(config: HostdConfig, sandboxId: string, script: string): Promise<Outcome> {
  const [file = '', ...args] = [...enter(config, sandboxId), '/bin/sh', '-c', script];
  try {
    const { stdout, stderr } = await execute(file, args, {
      env: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' },
      timeout: 30_000 * SLOWNESS,
    });
    return { exitCode: 0, stdout, stderr };
  } catch (error) {
    // `execFile` rejects when the exit code is not 0.
    const { code, stdout, stderr } = error as { code?: unknown; stdout: string; stderr: string };
    if (typeof code !== 'number') throw error;
    return { exitCode: code, stdout, stderr };
  }
}

/** Returns the command that runs another one as root of a sandbox. */
function enter(config: HostdConfig, sandboxId: string): readonly string[] {
  const { ociRuntime, ociRuntimeProgram, run } = config;
  if (ociRuntime === 'runsc') {
    const { key = '' } = recordsOnDisk(config).find(({ record }) => record.sandboxId === sandboxId) ?? {};
    return [ociRuntimeProgram, '--root', join(run.hostdDir, ociRuntime), 'exec', '--user', '0:0', key];
  }
  const namespaces = ['--user', '--mount', '--pid', '--net', '--ipc', '--uts', '--cgroup', '--root', '--wdns=/'];
  const target = ['--target', String(initPid(config, sandboxId)), '--setuid', '0', '--setgid', '0'];
  return ['nsenter', ...target, ...namespaces, '--'];
}
