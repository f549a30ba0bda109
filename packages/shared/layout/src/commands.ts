import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the folder of this checkout, or of what a package of Cloche installed. */
export function ownFolder(): string {
  return join(import.meta.dirname, '../../../..');
}

/** Returns the command that starts Cloche here, for people. */
export function startCommand(): string {
  return isInstalled() ? 'cloche start' : 'npm start';
}

/** Returns a command line of `cloche` that works here, for people. */
export function clocheCommand(args: string): string {
  return `${isInstalled() ? 'cloche' : 'npx cloche'} ${args}`;
}

/** Packages have a program `cloche`; a checkout has none outside of `node_modules`. */
function isInstalled(): boolean {
  return existsSync(join(ownFolder(), 'bin/cloche'));
}
