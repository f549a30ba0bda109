/** What of Cloche exists on this host, by name, so that a test can show that it left nothing. */
import { execFileSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync } from 'node:fs';

export interface HostFootprint {
  readonly processes: ReadonlySet<string>;
  readonly mounts: ReadonlySet<string>;
  readonly cgroups: ReadonlySet<string>;
  readonly loopDevices: ReadonlySet<string>;
  readonly interfaces: ReadonlySet<string>;
  readonly tables: ReadonlySet<string>;
  readonly slots: ReadonlySet<string>;
}

/** Looks at every process's mounts, not only at this one's: a leak in a private namespace is one too. */
export function hostFootprint(): HostFootprint {
  return {
    processes: new Set(processes()),
    mounts: new Set(mounts()),
    cgroups: new Set(globSync('/sys/fs/cgroup/{,*/}cloche-*/**/')),
    loopDevices: new Set(lines('losetup', ['-a']).filter((line) => /cloche/.test(line))),
    interfaces: new Set(lines('ip', ['-o', 'link']).flatMap((line) => /^\d+: (cl[^:@]+)/.exec(line)?.[1] ?? [])),
    tables: new Set(lines('nft', ['list', 'tables']).filter((line) => /cloche/.test(line))),
    // Their lock stays, as others may wait at it.
    slots: new Set(entries('/run/cloche/slots').filter((name) => name !== '.lock')),
  };
}

/**
 * What `after` has and `before` had not, a line each. An installation that served before may go on making sandboxes
 * meanwhile: what carries its id is its own affair.
 */
export function describeDifference(before: HostFootprint, after: HostFootprint): string[] {
  const others = [...before.tables].flatMap((table) => /cloche_([a-z0-9]+)/.exec(table)?.[1] ?? []);
  return describeNew(before, after, (name) => !others.some((id) => name.includes(id)));
}

/** The same of one installation alone, which serves before and after; its own processes come and go. */
export function describeGrowth(before: HostFootprint, after: HostFootprint, installationId: string): string[] {
  const none = new Set<string>();
  return describeNew({ ...before, processes: none }, { ...after, processes: none }, (name) =>
    name.includes(installationId),
  );
}

function describeNew(before: HostFootprint, after: HostFootprint, isMeant: (name: string) => boolean): string[] {
  return (Object.keys(after) as (keyof HostFootprint)[]).flatMap((kind) =>
    [...after[kind]].filter((name) => !before[kind].has(name) && isMeant(name)).map((name) => `${kind}: ${name}`),
  );
}

/** A namespace lives as long as its processes, mounts and descriptors; without those it is gone. */
const OURS = /packages\/(server|hostd|egress|setup)\/src\/main\.ts|\/opt\/cloche\//;

function processes(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const command = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
      const cgroup = /\/cloche-\S+/.exec(read(`/proc/${pid}/cgroup`))?.[0] ?? '';
      return cgroup || OURS.test(command) ? [`${pid} ${command} ${cgroup}`] : [];
    });
}

function mounts(): string[] {
  const found = new Set<string>();
  for (const file of globSync('/proc/[0-9]*/mountinfo')) {
    for (const line of read(file).split('\n')) {
      const target = line.split(' ')[4];
      if (target && /cloche/.test(line)) found.add(target);
    }
  }
  return [...found];
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

/** A tool that is not installed has left nothing behind. */
function lines(command: string, args: string[]): string[] {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .split('\n')
      .filter(Boolean);
  } catch {
    return [];
  }
}
