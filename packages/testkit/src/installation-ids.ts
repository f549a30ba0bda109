/** Ids of the installations that tests start, so that a run of the tests knows its own among all of a host. */
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The variable that hands the prefix of a run down to its processes. */
export const RUN_PREFIX = 'E2E_RUN_PREFIX';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
const PREFIX_LENGTH = 4;
const ID_LENGTH = 8;

/** Returns what the ids of this run start with. A test file that is run by itself has a prefix of its own. */
export function runPrefix(): string {
  process.env[RUN_PREFIX] ??= randomCharacters(PREFIX_LENGTH);
  return process.env[RUN_PREFIX];
}

export function newInstallationId(): string {
  return runPrefix() + randomCharacters(ID_LENGTH - PREFIX_LENGTH);
}

/** Tells whether tests of this run started the installation. */
export function isOfThisRun(installationId: string): boolean {
  return installationId.startsWith(runPrefix());
}

/** Gives a data folder an id of this run before an installation is started in it. A folder with an id keeps it. */
export function seedInstallationId(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true });
  const file = join(dataDir, 'installation-id');
  if (!existsSync(file)) writeFileSync(file, `${newInstallationId()}\n`, { mode: 0o644 });
}

function randomCharacters(count: number): string {
  return Array.from({ length: count }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}
