import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finding, ok, warning } from './finding.ts';

const PROC_SYS = '/proc/sys';

export interface HostSysctl {
  name: string;
  /** Minimum; starting Cloche raises a lower value to it. */
  atLeast: number;
}

/**
 * Kernel settings of the host that sandboxes need. The kernel's defaults assume one user for each machine. Rows of
 * `docs/operating/host.md` give the reason for each; `scripts/docs.test.ts` compares them.
 */
export const HOST_SYSCTLS: readonly HostSysctl[] = [
  { name: 'net.ipv4.ip_forward', atLeast: 1 },
  { name: 'net.ipv4.neigh.default.gc_thresh3', atLeast: 16_384 },
  { name: 'net.ipv4.tcp_max_orphans', atLeast: 4_194_304 },
  { name: 'net.netfilter.nf_conntrack_max', atLeast: 1_048_576 },
  { name: 'kernel.pid_max', atLeast: 4_194_304 },
  { name: 'kernel.threads-max', atLeast: 4_194_304 },
  { name: 'kernel.pty.max', atLeast: 1_048_576 },
  { name: 'fs.file-max', atLeast: 1_000_000_000 },
  { name: 'fs.inotify.max_user_instances', atLeast: 1024 },
  { name: 'fs.inotify.max_user_watches', atLeast: 524_288 },
];

export interface SysctlValue extends HostSysctl {
  /** Undefined where this kernel does not have the setting. */
  value: number | undefined;
}

/** Returns the settings with their current values. */
export async function readSysctls(root = PROC_SYS): Promise<SysctlValue[]> {
  return Promise.all(
    HOST_SYSCTLS.map(async (sysctl) => {
      const text = await readFile(fileOf(sysctl, root), 'utf8').catch(() => undefined);
      return { ...sysctl, value: text === undefined ? undefined : Number(text) };
    }),
  );
}

/** Raises values that are too low. Returns a phrase for each change, or for each refusal by the host. Idempotent. */
export async function raiseSysctls(root = PROC_SYS): Promise<string[]> {
  const low = (await readSysctls(root)).filter(isTooLow);
  return Promise.all(
    low.map(async (sysctl) => {
      const { name, value, atLeast } = sysctl;
      return writeFile(fileOf(sysctl, root), `${atLeast}\n`).then(
        () => `${name} ${value} → ${atLeast}`,
        () => `${name} stays ${value}`,
      );
    }),
  );
}

export async function checkSysctls(root = PROC_SYS): Promise<Finding> {
  const name = 'kernel settings';
  const low = (await readSysctls(root)).filter(isTooLow);
  if (low.length === 0) return ok(name, `${HOST_SYSCTLS.length} as sandboxes need them`);
  const found = low.map(({ name, value, atLeast }) => `${name} ${value}, needs ${atLeast}`).join('; ');
  const command = low.map(({ name, atLeast }) => `${name}=${atLeast}`).join(' ');
  const remedy = `Starting Cloche raises them. Where it may not write /proc/sys, run \`sysctl -w ${command}\` on the host.`;
  return { ...warning(name, found, remedy), installable: true };
}

function isTooLow({ value, atLeast }: SysctlValue): boolean {
  return value !== undefined && value < atLeast;
}

function fileOf({ name }: HostSysctl, root: string): string {
  return join(root, name.replaceAll('.', '/'));
}
