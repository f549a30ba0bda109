/** Lists everything of Cloche on this host by name, so that a test can show that nothing was left behind. */
import { execFileSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const KINDS = ['processes', 'mounts', 'cgroups', 'loopDevices', 'interfaces', 'tables', 'slots'] as const;
type Kind = (typeof KINDS)[number];

/** Names of each kind, each with the id of its installation where that is known. */
export type HostFootprint = Readonly<Record<Kind, ReadonlyMap<string, string | undefined>>>;

/**
 * Collects the footprint. Reads the mounts of every process: a mount that is left in a private namespace is a leak too.
 */
export function hostFootprint(): HostFootprint {
  const cgroups = globSync('/sys/fs/cgroup/{,*/}cloche-*/**/');
  const loops = lines('losetup', ['-a']);
  const interfaces = lines('ip', ['-o', 'link']).flatMap((line) => LINK.exec(line)?.[1] ?? []);
  const tables = lines('nft', ['list', 'tables']).filter((line) => /cloche/.test(line));
  const claims = slotClaims();
  // Read last: everything that an installation owns appears only after one of its processes.
  const running = readProcesses();

  const owners = new Owners([...cgroups, ...tables, ...interfaces, ...claims.map(([, claim]) => claim)], running);
  const owned = (names: readonly string[]) => new Map(names.map((name) => [name, owners.ofText(name)] as const));
  return {
    processes: processes(running, owners),
    mounts: mounts(running, owners),
    cgroups: owned(cgroups),
    loopDevices: owned(loops.filter((line) => /cloche/.test(line) || owners.ofText(line) !== undefined)),
    interfaces: owned(interfaces),
    tables: owned(tables),
    slots: new Map(claims.map(([slot, claim]) => [slot, owners.ofText(claim)] as const)),
  };
}

/**
 * Describes entries that are in `after` but not in `before`, one line each. Leaves out entries of installations that
 * are not `isOurs`: they serve others on this host, and create and end sandboxes at any time. Entries without a known
 * installation count.
 */
export function describeDifference(
  before: HostFootprint,
  after: HostFootprint,
  isOurs: (installationId: string) => boolean,
): string[] {
  return describeNew(before, after, KINDS, (owner) => owner === undefined || isOurs(owner));
}

/** Describes the growth of one installation that serves before and after; its own processes may start and end. */
export function describeGrowth(before: HostFootprint, after: HostFootprint, installationId: string): string[] {
  const kinds = KINDS.filter((kind) => kind !== 'processes');
  return describeNew(before, after, kinds, (owner) => owner === installationId);
}

function describeNew(
  before: HostFootprint,
  after: HostFootprint,
  kinds: readonly Kind[],
  counts: (owner: string | undefined) => boolean,
): string[] {
  return kinds.flatMap((kind) =>
    [...after[kind]]
      .filter(([name, owner]) => counts(owner) && !(before[kind].has(name) && before[kind].get(name) === owner))
      .map(([name, owner]) => `${kind}: ${name}${owner === undefined ? '' : ` (installation ${owner})`}`),
  );
}

const ID = '[a-z0-9]{8}';
/** Network links of sandboxes, of gated sandboxes, and both ends of the gateway's. */
const LINK = new RegExp(`^(?:\\d+: )?(c[legp]${ID}\\d*)`);
/** Name of a control group or table, or the claim of a slot. */
const NAMED = new RegExp(`(?:cloche[-_]|"installationId":")(${ID})(?![a-z0-9])`);
/**
 * Command lines of Cloche's processes. Namespaces need no check: they end with their processes, mounts and descriptors.
 */
const OURS = /packages\/(service\/server|host\/(hostd|egress|setup))\/src\/main\.ts|\/opt\/cloche\//;

interface RunningProcess {
  readonly pid: string;
  readonly parent: string;
  readonly command: string;
  /** Empty for a control group that is not Cloche's. */
  readonly cgroup: string;
  /** Data folder of the installation, from the environment of the process. */
  readonly dataDir: string | undefined;
  readonly mountInfo: string;
}

function readProcesses(): RunningProcess[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.map((pid) => ({
    pid,
    parent: /^PPid:\t(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? '',
    command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim(),
    cgroup: /\/cloche-\S+/.exec(read(`/proc/${pid}/cgroup`))?.[0] ?? '',
    dataDir: /(?:^|\0)CLOCHE_DATA_DIR=([^\0]+)/.exec(read(`/proc/${pid}/environ`))?.[1],
    mountInfo: read(`/proc/${pid}/mountinfo`),
  }));
}

/** Installations of this host, and the processes and names that belong to each. */
class Owners {
  readonly #ids = new Set<string>();
  /** Ids by data folder, for installations that have a process. */
  readonly #dataDirs = new Map<string, string>();
  readonly #ofProcesses = new Map<string, string>();

  constructor(names: readonly string[], running: readonly RunningProcess[]) {
    for (const name of names) this.#add(NAMED.exec(name)?.[1] ?? LINK.exec(name)?.[1]?.slice(2, 10));
    for (const one of running) this.#readProcess(one);
    // The process that starts an installation is in none of its control groups, but its children are.
    const starters = new Set(running.filter(({ command }) => OURS.test(command)).map(({ pid }) => pid));
    for (const { pid, parent } of running) {
      const owner = this.#ofProcesses.get(pid);
      if (owner !== undefined && starters.has(parent) && !this.#ofProcesses.has(parent)) {
        this.#ofProcesses.set(parent, owner);
      }
    }
  }

  /** Returns the installation whose id or data folder `text` contains. */
  ofText(text: string): string | undefined {
    for (const id of this.#ids) if (text.includes(id)) return id;
    for (const [dataDir, id] of this.#dataDirs) if (text.includes(`${dataDir}/`)) return id;
    return undefined;
  }

  ofProcess(pid: string): string | undefined {
    return this.#ofProcesses.get(pid);
  }

  #add(id: string | undefined): void {
    if (id !== undefined) this.#ids.add(id);
  }

  #readProcess({ pid, cgroup, dataDir }: RunningProcess): void {
    const id = dataDir === undefined ? undefined : read(join(dataDir, 'installation-id')).trim() || undefined;
    if (dataDir !== undefined && id !== undefined) this.#dataDirs.set(dataDir, id);
    const owner = NAMED.exec(cgroup)?.[1] ?? id;
    this.#add(owner);
    if (owner !== undefined) this.#ofProcesses.set(pid, owner);
  }
}

function processes(running: readonly RunningProcess[], owners: Owners): Map<string, string | undefined> {
  const ours = running.filter(({ cgroup, command }) => cgroup !== '' || OURS.test(command));
  return new Map(ours.map(({ pid, command, cgroup }) => [`${pid} ${command} ${cgroup}`, owners.ofProcess(pid)]));
}

/** Returns mounts. A mount in a private namespace belongs to the installation of the process that has it. */
function mounts(running: readonly RunningProcess[], owners: Owners): Map<string, string | undefined> {
  const found = new Map<string, string | undefined>();
  for (const { pid, mountInfo } of running) {
    for (const line of mountInfo.split('\n')) {
      const target = line.split(' ')[4];
      if (target === undefined || !/cloche/.test(line)) continue;
      const owner = owners.ofProcess(pid) ?? owners.ofText(line);
      found.set(owner === undefined ? target : `${target} of ${owner}`, owner);
    }
  }
  return found;
}

/** Returns the claims of slots, without the slots' lock: it stays, as other processes may wait for it. */
function slotClaims(): [string, string][] {
  const slots = entries('/run/cloche/slots').filter((name) => /^\d+$/.test(name));
  return slots.map((slot) => [slot, read(`/run/cloche/slots/${slot}`)]);
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Returns no lines for a tool that is not installed: it cannot have left anything behind. */
function lines(command: string, args: string[]): string[] {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .split('\n')
      .filter(Boolean);
  } catch {
    return [];
  }
}
