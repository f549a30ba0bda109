import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PreparedHost } from '../host/prepare-host.ts';
import type { ServiceAccount } from '../host/service-account.ts';
import { BALANCER_PROGRAM } from './balancer-config.ts';
import type { InstallationPaths } from './installation-paths.ts';

/** The processes of an installation, in the order of their start. */
export const PART_NAMES = ['hostd', 'egress', 'server'] as const;
export type PartName = (typeof PART_NAMES)[number];

/** Name of a process: of several servers, each has its own, and they have a load balancer. */
export type ProcessName = PartName | `server-${string}` | 'balancer';

/** Returns the part whose settings and rights a process has. The load balancer has no settings. */
export function partOf(name: ProcessName): PartName {
  return name === 'hostd' || name === 'egress' ? name : 'server';
}

export const CHECKOUT = fileURLToPath(new URL('../../../../..', import.meta.url)).replace(/\/$/, '');

/** Path of each part's program in the checkout. */
export type Programs = Record<PartName, string>;

export const PROGRAMS: Programs = {
  hostd: 'packages/host/hostd/src/main.ts',
  egress: 'packages/host/egress/src/main.ts',
  server: 'packages/service/server/src/main.ts',
};

/**
 * Returns the command of the load balancer.
 *
 * SECURITY: it has the user of the servers, because it speaks for their clients, and no capability (e2e/servers).
 */
export function balancerCommand({ server }: PreparedHost['accounts'], configFile: string): [string, string[]] {
  const [file = '', ...args] = withoutPrivileges(server, [BALANCER_PROGRAM, '-db', '-f', configFile]);
  return [file, args];
}

/** Returns the command that starts a part. Each step replaces itself with the next, so the pid is the part's. */
export function commandFor(
  part: PartName,
  host: Pick<PreparedHost, 'accounts'>,
  places: InstallationPaths,
  programs: Programs,
): [file: string, args: string[]] {
  const program = join(codeFolderOf(part, places.codeDir), programs[part]);
  return part === 'hostd' ? privileged(program) : unprivileged(host.accounts[part], places, program);
}

/** Returns the folder where a part finds the checkout. */
export function codeFolderOf(part: PartName, codeDir: string): string {
  return part === 'hostd' ? CHECKOUT : codeDir;
}

/** Returns the command of hostd, whose private mount namespace hides its mounts and ends with it. */
function privileged(program: string): [string, string[]] {
  const namespaces = ['--mount', '--propagation', 'private'];
  return ['unshare', [...namespaces, '--', ...endsWithUs([process.execPath, program])]];
}

/**
 * SECURITY: the parts that serve untrusted clients have no capability, can gain none, and cannot write the code that
 * they run. `$1` is the checkout, `$2` its mount point.
 */
const SHOW_CODE = `mount --bind "$1" "$2"; mount -o remount,bind,ro,nosuid,nodev "$2"; cd "$2"; shift 2; exec "$@"`;

function unprivileged(account: ServiceAccount, { codeDir }: InstallationPaths, program: string): [string, string[]] {
  const node = join(codeDir, 'node_modules', '.bin', 'node');
  const [file = '', ...args] = codeAt(codeDir, withoutPrivileges(account, [node, program]));
  return [file, args];
}

/** Returns a command that runs where the checkout is mounted at `codeDir`, in a mount namespace of its own. */
export function codeAt(codeDir: string, command: readonly string[]): string[] {
  if (codeDir === CHECKOUT) return [...command];
  const shown = ['sh', '-euc', SHOW_CODE, 'show-code', CHECKOUT, codeDir, ...command];
  return ['unshare', '--mount', '--propagation', 'private', '--', ...shown];
}

function withoutPrivileges(account: ServiceAccount, command: readonly string[]): string[] {
  const drop = [
    'setpriv',
    `--reuid=${account.uid}`,
    `--regid=${account.gid}`,
    '--clear-groups',
    '--bounding-set=-all',
    '--inh-caps=-all',
    '--no-new-privs',
  ];
  return [...drop, ...endsWithUs(command)];
}

/**
 * Makes the command end when this process ends for any reason. Set last, because a change of user resets the signal.
 * The final check prevents a start after this process has already ended.
 */
function endsWithUs(command: readonly string[]): string[] {
  const begin = 'test "$PPID" = "$0"; exec "$@"';
  return ['setpriv', '--pdeathsig', 'TERM', 'sh', '-euc', begin, `${process.pid}`, ...command];
}
