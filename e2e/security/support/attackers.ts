/** Who attacks, and who shows that the attack would work: the same Python, run with different privileges. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachePlaces } from '@cloche/layout';
import { execa } from 'execa';
import type { TestService } from '../../support/service.ts';

/** What an attempt came to, by its name: `done`, or how it was refused. */
export type Outcomes = Readonly<Record<string, string>>;

/** Everything that a test sees of the machine, so that what a control does is done to nothing of the host's. */
const OWN_NAMESPACES = ['--mount', '--pid', '--fork', '--mount-proc', '--net', '--ipc', '--uts', '--cgroup'];

/** A process of the host with no defence but its user's. */
const CONTROLS = {
  /** Nobody in particular. */
  user: ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'],
  /** What a container's root is without a filter of system calls and with all capabilities of its namespaces. */
  'root of namespaces': ['unshare', '--user', '--map-root-user', ...OWN_NAMESPACES],
  root: ['unshare', ...OWN_NAMESPACES],
  /** Sees the host's own processes too. */
  'root of the host': [],
} as const;

/** As a client's code runs: uid 1000 of the sandbox, in a kernel. */
export async function asUser(service: TestService, sandboxId: string, code: string): Promise<string> {
  const run = await service.api.run(sandboxId, code);
  if (run.error) throw new Error(`${run.error.name}: ${run.error.message}\n${run.stderr}`);
  return run.stdout;
}

/**
 * As somebody who has become root in the sandbox, which the API offers nobody: the OCI runtime starts the code in it,
 * under the container's own filter of system calls, capabilities and limits.
 */
export async function asRoot(service: TestService, sandboxId: string, code: string): Promise<string> {
  return (await execInside(service, sandboxId, ['/usr/bin/python3', '-'], code)).stdout;
}

/**
 * A command as root of a sandbox. Crun works on a hybrid host only where hostd runs it, in its mount namespace; runc
 * begins in the folder that the root file system had at first, which hostd has taken away by now.
 */
export function execInside(service: TestService, sandboxId: string, command: readonly string[], input = '') {
  const runtime = process.env.CLOCHE_OCI_RUNTIME ?? 'crun';
  const key = service.instanceKey(sandboxId);
  if (runtime !== 'crun') mkdirSync(join(service.runDir, 'mounts', key, 'root'), { recursive: true });
  const inHostd = runtime === 'crun' ? ['nsenter', '--target', String(service.pid('hostd')), '--mount', '--'] : [];
  // Built into the cache folder, and on nobody's PATH.
  const { runsc } = cachePlaces(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
  const program = runtime === 'runsc' ? runsc : runtime;
  const [file = program, ...start] = [...inHostd, program, '--root', join(service.runDir, 'hostd', runtime)];
  const options = { input, timeout: 30_000, maxBuffer: 16 * 1024 * 1024 } as const;
  // gVisor lets nobody gain privileges, and has no word for it.
  const noNewPrivileges = runtime === 'runsc' ? [] : ['--no-new-privs'];
  const exec = ['exec', ...noNewPrivileges, '--user', '0:0', key];
  return execa(file, [...start, ...exec, ...command], options);
}

/** The agent's process, by its number in the sandbox: the one that the init there started. */
export async function agentPid(service: TestService, sandboxId: string): Promise<number> {
  const find = `
for pid in filter(str.isdigit, __import__("os").listdir("/proc")):
    if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1] == "1" and "agent" in open(f"/proc/{pid}/cmdline").read(): print(pid)`;
  return Number(await asRoot(service, sandboxId, find));
}

/** The control: outside of every sandbox. */
export async function onHost(privileges: keyof typeof CONTROLS, code: string): Promise<string> {
  const [command = '', ...args] = [...CONTROLS[privileges], '/usr/bin/python3', '-'];
  return (await execa(command, args, { input: code, timeout: 30_000, cwd: '/' })).stdout;
}

/** A script of `attempts/`, or several that are one, with what a test gives it as `given`. */
export function attempts(names: string | readonly string[], given: object = {}): string {
  const read = (name: string) => readFileSync(new URL(`../attempts/${name}.py`, import.meta.url), 'utf8');
  const script = [names].flat().map(read).join('\n\n');
  return `import json\ngiven = json.loads(${JSON.stringify(JSON.stringify(given))})\n${script}`;
}

export function outcomesOf(stdout: string): Outcomes {
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}
