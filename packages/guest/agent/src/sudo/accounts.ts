import { closeSync, openSync, readSync } from 'node:fs';

/** Most bytes that are read of `/etc/passwd` and `/etc/group`, which a sandbox's root may fill. */
const MAX_BYTES = 1024 * 1024;
const LARGEST_ID = 65_535;

export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
  readonly shell: string;
}

/** Returns a user by its name, or by its number as `#1000`; undefined for an unknown name. */
export function findAccount(user: string, file = '/etc/passwd'): Account | undefined {
  const number = numberOf(user);
  for (const [name = '', , uid, gid, , home = '/', shell = ''] of lines(file)) {
    if (number === undefined ? name !== user : Number(uid) !== number) continue;
    return { name, uid: Number(uid), gid: Number(gid), home, shell: shell || '/bin/sh' };
  }
  if (number !== undefined) return { name: user, uid: number, gid: number, home: '/', shell: '/bin/sh' };
  return user === 'root' ? { name: 'root', uid: 0, gid: 0, home: '/root', shell: '/bin/sh' } : undefined;
}

/** Returns the number of a group, which is named as a user is. */
export function findGroup(group: string, file = '/etc/group'): number | undefined {
  const number = numberOf(group);
  if (number !== undefined) return number;
  const found = lines(file).find(([name]) => name === group);
  return found && Number(found[2]);
}

function numberOf(text: string): number | undefined {
  const [, digits] = /^#(\d{1,5})$/.exec(text) ?? [];
  return digits !== undefined && Number(digits) <= LARGEST_ID ? Number(digits) : undefined;
}

/** Returns the fields of the lines whose third field is a number. */
function lines(file: string): string[][] {
  const fields = textOf(file)
    .split('\n')
    .map((line) => line.split(':'));
  return fields.filter(([, , id = '']) => /^\d{1,9}$/.test(id));
}

function textOf(file: string): string {
  const buffer = Buffer.alloc(MAX_BYTES);
  try {
    const fd = openSync(file, 'r');
    try {
      return buffer.toString('utf8', 0, readSync(fd, buffer, 0, MAX_BYTES, 0));
    } finally {
      closeSync(fd);
    }
  } catch {
    return '';
  }
}
