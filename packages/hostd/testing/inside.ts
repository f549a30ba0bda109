import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { HostdConfig } from '../src/host/config.ts';

const execute = promisify(execFile);

export interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** The first process of a sandbox, by its number on the host. */
export function initPid(config: HostdConfig, sandboxId: string): number {
  const { record } = recordsOnDisk(config).find((one) => one.record.sandboxId === sandboxId) ?? {};
  if (!record) throw new Error(`no instance of ${sandboxId}`);
  return record.init.pid;
}

/** What hostd has written down of its instances. */
export function recordsOnDisk({ hostdDir }: HostdConfig) {
  return globSync('instances/*/instance.json', { cwd: hostdDir }).flatMap((file) => {
    const text = readIfThere(join(hostdDir, file));
    return text === undefined ? [] : [{ key: basename(dirname(file)), record: JSON.parse(text) }];
  });
}

/** Those that wait for a sandbox come and go at any time. */
function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Runs a shell script as root of a sandbox, in all of its namespaces. */
export async function runInside(config: HostdConfig, sandboxId: string, script: string): Promise<Outcome> {
  const namespaces = ['--user', '--mount', '--pid', '--net', '--ipc', '--uts', '--cgroup', '--root', '--wdns=/'];
  const target = ['--target', String(initPid(config, sandboxId)), '--setuid', '0', '--setgid', '0'];
  try {
    const { stdout, stderr } = await execute('nsenter', [...target, ...namespaces, '--', '/bin/sh', '-c', script], {
      env: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' },
      timeout: 30_000,
    });
    return { exitCode: 0, stdout, stderr };
  } catch (error) {
    // As execFile rejects for a program that ends badly.
    const { code, stdout, stderr } = error as { code?: unknown; stdout: string; stderr: string };
    if (typeof code !== 'number') throw error;
    return { exitCode: code, stdout, stderr };
  }
}
