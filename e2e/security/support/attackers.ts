/** Runs attacks, and controls that show that an attack would work: the same Python with different privileges. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachePaths } from '@cloche/layout';
import { execa } from 'execa';
import type { TestService } from '../../support/service.ts';

/** Outcome of each attempt by its name: `done`, or how it was refused. */
export type Outcomes = Readonly<Record<string, string>>;

/** Time for an attempt. Some look at each process of the host, of which a busy one has hundreds. */
const ATTEMPT_TIMEOUT_MS = 120_000;

/** Namespaces for everything that a test changes, so that a control does not change the host. */
const OWN_NAMESPACES = ['--mount', '--pid', '--fork', '--mount-proc', '--net', '--ipc', '--uts', '--cgroup'];

/** Privileges of a host process without any defence except those of its user. */
const CONTROLS = {
  /** A user without processes or files. */
  user: ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'],
  /** A container's root without a filter of system calls, and with all capabilities of its namespaces. */
  'root of namespaces': ['unshare', '--user', '--map-root-user', ...OWN_NAMESPACES],
  root: ['unshare', ...OWN_NAMESPACES],
  /** Root that also sees the host's own processes. */
  'root of the host': [],
} as const;

/** Runs code as a client's code runs: as uid 1000 of the sandbox, in a kernel. */
export async function asUser(
  service: TestService,
  sandboxId: string,
  code: string,
  timeoutMs = ATTEMPT_TIMEOUT_MS,
): Promise<string> {
  const run = await service.api.run(sandboxId, code, { timeoutMs });
  if (run.error) throw new Error(`${run.error.name}: ${run.error.message}\n${run.stderr}`);
  return run.stdout;
}

/**
 * Runs code as an attacker who has become root of the sandbox. The OCI runtime, instead of the API, starts the code in
 * the sandbox, under the container's own filter of system calls, capabilities and limits.
 */
export async function asRoot(service: TestService, sandboxId: string, code: string): Promise<string> {
  return (await execInside(service, sandboxId, ['/usr/bin/python3', '-'], code)).stdout;
}

/**
 * Runs a command as root of a sandbox. On a hybrid host, crun works only in hostd's mount namespace. runc starts in the
 * folder where the root file system was first mounted, which hostd has removed by now.
 */
export function execInside(service: TestService, sandboxId: string, command: readonly string[], input = '') {
  const runtime = process.env.CLOCHE_OCI_RUNTIME ?? 'crun';
  const key = service.instanceKey(sandboxId);
  if (runtime !== 'crun') mkdirSync(join(service.runDir, 'mounts', key, 'root'), { recursive: true });
  const inHostd = runtime === 'crun' ? ['nsenter', '--target', String(service.pid('hostd')), '--mount', '--'] : [];
  // Built into the cache folder, which is in no `PATH`.
  const { runsc } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
  const program = runtime === 'runsc' ? runsc : runtime;
  const [file = program, ...start] = [...inHostd, program, '--root', join(service.runDir, 'hostd', runtime)];
  const options = { input, timeout: ATTEMPT_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 } as const;
  // gVisor never allows a gain of privileges, and has no option for it.
  const noNewPrivileges = runtime === 'runsc' ? [] : ['--no-new-privs'];
  const exec = ['exec', ...noNewPrivileges, '--user', '0:0', key];
  return execa(file, [...start, ...exec, ...command], options);
}

/** Returns the agent's process id in the sandbox: the process that init there has started. */
export async function agentPid(service: TestService, sandboxId: string): Promise<number> {
  const find = `
for pid in filter(str.isdigit, __import__("os").listdir("/proc")):
    try: stat, command = [open(f"/proc/{pid}/{name}").read() for name in ("stat", "cmdline")]
    except OSError: continue  # It has ended meanwhile.
    if stat.rpartition(")")[2].split()[1] == "1" and "agent" in command: print(pid)`;
  return Number(await asRoot(service, sandboxId, find));
}

/** Runs the control, outside of every sandbox. */
export async function onHost(privileges: keyof typeof CONTROLS, code: string): Promise<string> {
  const [command = '', ...args] = [...CONTROLS[privileges], '/usr/bin/python3', '-'];
  return (await execa(command, args, { input: code, timeout: ATTEMPT_TIMEOUT_MS, cwd: '/' })).stdout;
}

/** Returns a script of `attempts/`, or several joined into one, with the test's values as `given`. */
export function attempts(names: string | readonly string[], given: object = {}): string {
  const read = (name: string) => readFileSync(new URL(`../attempts/${name}.py`, import.meta.url), 'utf8');
  const script = [names].flat().map(read).join('\n\n');
  return `import json\ngiven = json.loads(${JSON.stringify(JSON.stringify(given))})\n${script}`;
}

export function outcomesOf(stdout: string): Outcomes {
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}
