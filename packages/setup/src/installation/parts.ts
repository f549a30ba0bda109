import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PreparedHost } from '../host/prepare-host.ts';
import type { ServiceAccount } from '../host/service-account.ts';
import type { InstallationPlaces } from './installation-places.ts';

/** The processes of an installation, in the order in which they are needed. */
export const PART_NAMES = ['hostd', 'egress', 'server'] as const;
export type PartName = (typeof PART_NAMES)[number];

export const CHECKOUT = fileURLToPath(new URL('../../../..', import.meta.url)).replace(/\/$/, '');

/** Where a part's program lies in the checkout. */
export type Programs = Record<PartName, string>;

export const PROGRAMS: Programs = {
  hostd: 'packages/hostd/src/main.ts',
  egress: 'packages/egress/src/main.ts',
  server: 'packages/server/src/main.ts',
};

/** A command that becomes the part: each step of it replaces itself by the next, so its pid is the part's. */
export function commandFor(
  part: PartName,
  host: Pick<PreparedHost, 'accounts'>,
  places: InstallationPlaces,
  programs: Programs,
): [file: string, args: string[]] {
  return part === 'hostd'
    ? privileged(join(CHECKOUT, programs.hostd))
    : unprivileged(host.accounts[part], places, join(places.codeDir, programs[part]));
}

/** What hostd mounts is seen by nobody else and goes with it. */
function privileged(program: string): [string, string[]] {
  const namespaces = ['--mount', '--propagation', 'private'];
  return ['unshare', [...namespaces, '--', ...endsWithUs([process.execPath, program])]];
}

/**
 * SECURITY: the parts that strangers talk to hold no capability, can gain none, and cannot write the code that they
 * run. `$1` is the checkout, `$2` where it is shown.
 */
const SHOW_CODE = `mount --bind "$1" "$2"; mount -o remount,bind,ro,nosuid,nodev "$2"; cd "$2"; shift 2; exec "$@"`;

function unprivileged(account: ServiceAccount, { codeDir }: InstallationPlaces, program: string): [string, string[]] {
  const node = join(codeDir, 'node_modules', 'node', 'bin', 'node');
  const drop = [
    'setpriv',
    `--reuid=${account.uid}`,
    `--regid=${account.gid}`,
    '--clear-groups',
    '--bounding-set=-all',
    '--inh-caps=-all',
    '--no-new-privs',
  ];
  const command = [...drop, ...endsWithUs([node, program])];
  const namespaces = ['--mount', '--propagation', 'private'];
  return ['unshare', [...namespaces, '--', 'sh', '-euc', SHOW_CODE, 'show-code', CHECKOUT, codeDir, ...command]];
}

/**
 * Makes the command end when we do, however we end. Set last, as the kernel forgets it when a process changes its user;
 * whoever finds then that we are gone already does not begin.
 */
function endsWithUs(command: readonly string[]): string[] {
  const begin = 'test "$PPID" = "$0"; exec "$@"';
  return ['setpriv', '--pdeathsig', 'TERM', 'sh', '-euc', begin, `${process.pid}`, ...command];
}
