import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Programs that parts of a release run, and the package of Debian that has each. */
const TOOLS: readonly { program: string; debian: string; parts: readonly string[] }[] = [
  { program: 'dpkg-deb', debian: 'dpkg', parts: ['deb', 'check'] },
  { program: 'apt-ftparchive', debian: 'apt-utils', parts: ['index'] },
  { program: 'npm', debian: 'npm', parts: ['npm', 'check'] },
  { program: 'gpg', debian: 'gnupg', parts: ['signature'] },
  { program: 'gpgv', debian: 'gpgv', parts: ['signature'] },
];

/**
 * Checks for the programs of the parts, before the first part takes minutes.
 *
 * @throws an error that names each program that is missing, and the command that installs it
 */
export function requireTools(parts: readonly string[], path = process.env.PATH ?? ''): void {
  const missing = TOOLS.filter(
    ({ program, parts: of }) => parts.some((part) => of.includes(part)) && !has(program, path),
  );
  if (missing.length === 0) return;
  const names = missing.map(({ program }) => program).join(', ');
  throw new Error(`Missing: ${names}. Run \`apt-get install ${missing.map(({ debian }) => debian).join(' ')}\`.`);
}

function has(program: string, path: string): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}
