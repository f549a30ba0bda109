import { readdir, readFile } from 'node:fs/promises';
import { FIRST_OWNER_ID, FIRST_SANDBOX_ID, IDS_PER_SANDBOX, LAST_OWNER_ID } from '@cloche/layout';
import { type Finding, ok, warning } from './finding.ts';

const SLOTS_DIR = '/run/cloche/slots';

export interface IdSources {
  /** Contents of `/etc/passwd`, `/etc/group`, `/etc/subuid` and `/etc/subgid`. */
  passwd: string;
  group: string;
  subuid: string;
  subgid: string;
  /** User id of each process of the host. */
  processUsers: readonly number[];
  /** Slots of live sandboxes. */
  slots: readonly number[];
}

/**
 * Checks for ids that another program or account of this host also uses: a process with a sandbox's id may signal its
 * processes and open its files. The default ranges of systemd-nspawn (`-U`) and of SSSD overlap those of sandboxes.
 */
export async function checkSandboxIds(read: () => Promise<IdSources> = readSources): Promise<Finding> {
  const name = 'ids of sandboxes';
  const found = usersOf(await read());
  // A sandbox that ends while the sources are read may have processes but no slot. It does not occur in a second
  // reading.
  const again = found.length === 0 ? [] : usersOf(await read());
  const others = found.filter((user) => again.includes(user));
  const range = `${FIRST_SANDBOX_ID} to ${LAST_OWNER_ID}`;
  if (others.length === 0) return ok(name, range);
  const remedy = `Give them ids below ${FIRST_SANDBOX_ID} or above ${LAST_OWNER_ID}: sandboxes use the ids in between.`;
  return warning(name, others.join('; '), remedy);
}

function usersOf({ passwd, group, subuid, subgid, processUsers, slots }: IdSources): string[] {
  const accounts = [
    ...linesOf(passwd).map(([name, , id]) => ({ what: `user ${name}`, first: Number(id), count: 1 })),
    ...linesOf(group).map(([name, , id]) => ({ what: `group ${name}`, first: Number(id), count: 1 })),
    ...linesOf(subuid).map(([name, first, count]) => ({
      what: `subuid ${name}`,
      first: +`${first}`,
      count: +`${count}`,
    })),
    ...linesOf(subgid).map(([name, first, count]) => ({
      what: `subgid ${name}`,
      first: +`${first}`,
      count: +`${count}`,
    })),
  ];
  const overlapping = accounts.filter(({ first, count }) => first <= LAST_OWNER_ID && first + count > FIRST_SANDBOX_ID);
  const taken = new Set(slots);
  const strangers = new Set(
    processUsers.filter((id) =>
      id >= FIRST_OWNER_ID ? id <= LAST_OWNER_ID : id >= FIRST_SANDBOX_ID && !taken.has(slotOf(id)),
    ),
  );
  return [
    ...overlapping.map(
      ({ what, first, count }) => `${what} has ${count === 1 ? first : `${first} to ${first + count - 1}`}`,
    ),
    ...[...strangers].map((id) => `a process has ${id}`),
  ];
}

function slotOf(id: number): number {
  return Math.floor((id - FIRST_SANDBOX_ID) / IDS_PER_SANDBOX);
}

function linesOf(text: string): string[][] {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(':'));
}

async function readSources(): Promise<IdSources> {
  const [passwd = '', group = '', subuid = '', subgid = ''] = await Promise.all(
    ['passwd', 'group', 'subuid', 'subgid'].map((file) => readText(`/etc/${file}`)),
  );
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const users = await Promise.all(
    pids.map(async (pid) => /^Uid:\t(\d+)/m.exec(await readText(`/proc/${pid}/status`))?.[1]),
  );
  // Slots are read after the processes: a sandbox launched in between gets its slot before its processes.
  const slots = (await readdir(SLOTS_DIR).catch(() => [])).map(Number);
  return { passwd, group, subuid, subgid, processUsers: users.filter((id) => id !== undefined).map(Number), slots };
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
