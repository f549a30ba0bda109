/** Ids of the installations that tests start. They let a run of the tests recognize its own installations on a host. */
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Environment variable that passes a run's prefix to its processes. */
export const RUN_PREFIX = 'E2E_RUN_PREFIX';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
const PREFIX_LENGTH = 4;
const ID_LENGTH = 8;

/** Returns the prefix of this run's ids. A test file that is run alone has its own prefix. */
export function runPrefix(): string {
  process.env[RUN_PREFIX] ??= randomCharacters(PREFIX_LENGTH);
  return process.env[RUN_PREFIX];
}

export function newInstallationId(): string {
  return runPrefix() + randomCharacters(ID_LENGTH - PREFIX_LENGTH);
}

/** Returns whether a test of this run started the installation. */
export function isOfThisRun(installationId: string): boolean {
  return installationId.startsWith(runPrefix());
}

/**
 * Gives a data folder an id of this run, before an installation is started in it. Keeps an existing id. Returns the id.
 */
export function seedInstallationId(dataDir: string): string {
  mkdirSync(dataDir, { recursive: true });
  const file = join(dataDir, 'installation-id');
  if (!existsSync(file)) writeFileSync(file, `${newInstallationId()}\n`, { mode: 0o644 });
  return readFileSync(file, 'utf8').trim();
}

function randomCharacters(count: number): string {
  return Array.from({ length: count }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}
