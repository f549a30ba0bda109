import { posix } from 'node:path';
import { MAX_PATH_BYTES } from '@cloche/protocol/bounds';
import { type InvalidArchiveError, invalidArchive } from './archive-entry.ts';

const MAX_NAME_BYTES = 255;

/**
 * Returns the path of an entry relative to the target folder, without `.` parts and extra slashes; empty for the folder
 * itself.
 */
export function entryPath(name: string): string {
  return innerPath(name, (why) => refusedEntry(name, why));
}

/** Returns the path of the file that the hard link at `path` shares. */
export function linkedPath(path: string, target: string): string {
  return innerPath(target, (why) => refusedEntry(path, `is a hard link whose target ${why}`));
}

function innerPath(name: string, refused: (why: string) => InvalidArchiveError): string {
  if (name.startsWith('/')) throw refused('is absolute');
  if (name.includes('\0')) throw refused('has a NUL in its name');
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw refused('leads out of the directory by `..`');
  if (parts.some((part) => part.length > MAX_NAME_BYTES)) throw refused('has a name that is too long');
  const path = parts.join('/');
  if (path.length > MAX_PATH_BYTES) throw refused('has a path that is too long');
  return path;
}

/**
 * Refuses a link at `path` whose target is outside the target folder. `..` is allowed only at the start: after another
 * link's name, the text does not show where it leads.
 */
export function requireInnerLink(path: string, target: string): void {
  if (target === '' || target.includes('\0')) throw refusedEntry(path, 'is a link with an invalid target');
  if (target.startsWith('/')) throw refusedEntry(path, 'is a link that leads out of the directory');
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const climbs = parts.findIndex((part) => part !== '..');
  const rest = climbs === -1 ? [] : parts.slice(climbs);
  if (rest.includes('..')) throw refusedEntry(path, 'is a link whose target has `..` after a name');
  const depth = posix.dirname(path) === '.' ? 0 : posix.dirname(path).split('/').length;
  if (parts.length - rest.length > depth) throw refusedEntry(path, 'is a link that leads out of the directory');
}

export function refusedEntry(name: string, why: string): InvalidArchiveError {
  const text = Buffer.from(name, 'latin1').toString();
  return invalidArchive(`${JSON.stringify(text.length > 200 ? `…${text.slice(-200).toWellFormed()}` : text)} ${why}`);
}
