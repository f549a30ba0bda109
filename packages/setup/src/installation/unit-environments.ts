import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EffectiveSetting, settingsFor } from '@cloche/settings';
import type { PreparedHost } from '../host/prepare-host.ts';
import { SetupProblem } from '../progress.ts';
import { preparePlaces } from './installation-places.ts';
import { environmentFor } from './part-environment.ts';
import { PART_NAMES } from './parts.ts';

/** Where the units of deploy/systemd have everything; they name these folders and no others. */
export const UNIT_PLACES = {
  dataDir: '/var/lib/cloche',
  runDir: '/run/cloche/main',
  environments: '/run/cloche/units',
};

/**
 * What `npm start` would give each part, as a file for its systemd unit. Makes the folders of the installation too.
 * Repeating it changes nothing but what the settings changed.
 *
 * @throws {SetupProblem} when the settings name folders that the units do not.
 */
export async function writeUnitEnvironments(
  prepared: Pick<PreparedHost, 'accounts' | 'guestDir'>,
  settings: readonly EffectiveSetting[],
  { dataDir, runDir, environments }: typeof UNIT_PLACES = UNIT_PLACES,
): Promise<void> {
  const own = settingsFor('setup', settings);
  requireFolder('CLOCHE_DATA_DIR', own.CLOCHE_DATA_DIR, dataDir);
  requireFolder('CLOCHE_RUN_DIR', own.CLOCHE_RUN_DIR ?? runDir, runDir);
  const places = { ...(await preparePlaces(dataDir, runDir, prepared.accounts)), cacheDir: own.CLOCHE_CACHE_DIR ?? '' };
  const servedAt = { host: own.CLOCHE_HOST ?? '', port: Number(own.CLOCHE_PORT) };
  await mkdir(environments, { recursive: true, mode: 0o700 });
  // A key may be in them.
  await chmod(environments, 0o700);
  for (const part of PART_NAMES) {
    const text = environmentFile(environmentFor(part, prepared, places, servedAt, settings));
    await writeFile(join(environments, `${part}.env`), text, { mode: 0o600 });
  }
}

function requireFolder(name: string, given: string | undefined, ofUnits: string): void {
  if (given === ofUnits) return;
  throw new SetupProblem(
    `${name} is ${given}, and the systemd units have ${ofUnits}.`,
    `Leave ${name} out or set it to ${ofUnits}; for other folders, change the units by drop-ins as well.`,
  );
}

/** As systemd.exec(5) reads it: in double quotes, with what means something there escaped. */
export function environmentFile(environment: Readonly<Record<string, string>>): string {
  const lines = Object.entries(environment).map(([name, value]) => {
    if (/[\0\n\r]/.test(value)) throw new SetupProblem(`${name} has a line break in it.`, 'Take it out.');
    return `${name}="${value.replace(/["\\`$]/g, '\\$&')}"`;
  });
  return `${lines.join('\n')}\n`;
}
