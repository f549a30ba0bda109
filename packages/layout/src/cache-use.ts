import { closeSync, mkdirSync, openSync, utimesSync } from 'node:fs';
import { join } from 'node:path';

/** The name by which the cache remembers when a template version was used last. */
export function templateUse(digest: string): string {
  return `template-${digest}`;
}

export function guestUse(digest: string): string {
  return `guest-${digest}`;
}

/** Notes that `name` is used now: `npm start` of another checkout keeps it for as long as its setting says from here on. */
export function noteUse(usedDir: string, name: string, now = new Date()): void {
  mkdirSync(usedDir, { recursive: true });
  const file = join(usedDir, name);
  closeSync(openSync(file, 'a'));
  utimesSync(file, now, now);
}
