import { closeSync, mkdirSync, openSync, utimesSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the name under which the cache records the last use of a template version. */
export function templateUse(digest: string): string {
  return `template-${digest}`;
}

export function guestUse(digest: string): string {
  return `guest-${digest}`;
}

/** Records that `name` is used now, so that `npm start` of any checkout keeps it for its retention time from now on. */
export function recordUse(usedDir: string, name: string, now = new Date()): void {
  mkdirSync(usedDir, { recursive: true });
  const file = join(usedDir, name);
  closeSync(openSync(file, 'a'));
  utimesSync(file, now, now);
}
