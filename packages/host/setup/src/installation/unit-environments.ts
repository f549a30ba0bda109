import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EffectiveSetting, settingsFor } from '@cloche/settings';
import type { PreparedHost } from '../host/prepare-host.ts';
import { SetupError } from '../progress.ts';
import { writeBalancerConfig } from './balancer-config.ts';
import { ensureCompiledCode } from './compiled-code.ts';
import { arrangeCompressedSwap } from './compressed-swap.ts';
import { preparePaths } from './installation-paths.ts';
import { environmentFor } from './part-environment.ts';
import { CHECKOUT, PART_NAMES } from './parts.ts';

/** Folders of the units in deploy/systemd, which name no others. */
export const UNIT_PATHS = {
  dataDir: '/var/lib/cloche',
  runDir: '/run/cloche/main',
  environments: '/run/cloche/units',
};

/**
 * Writes the environment of each part, as `npm start` would set it, to a file for its systemd unit. Also creates the
 * installation's folders. Idempotent.
 *
 * @throws {SetupError} when the settings name folders other than the units'.
 */
export async function writeUnitEnvironments(
  prepared: Pick<PreparedHost, 'accounts' | 'guestDir'>,
  settings: readonly EffectiveSetting[],
  { dataDir, runDir, environments }: typeof UNIT_PATHS = UNIT_PATHS,
): Promise<void> {
  const own = settingsFor('setup', settings);
  requireFolder('CLOCHE_DATA_DIR', own.CLOCHE_DATA_DIR, dataDir);
  requireFolder('CLOCHE_RUN_DIR', own.CLOCHE_RUN_DIR ?? runDir, runDir);
  const cacheDir = own.CLOCHE_CACHE_DIR ?? '';
  const { runDir: runFolder, installationId } = await preparePaths(dataDir, runDir, prepared.accounts);
  await arrangeCompressedSwap(installationId, own.CLOCHE_ZRAM);
  // The units run the parts where the checkout is.
  const compiledDir = await ensureCompiledCode(cacheDir, CHECKOUT, prepared.accounts);
  const places = { dataDir, runDir: runFolder, cacheDir, compiledDir };
  const servedAt = { host: own.CLOCHE_HOST ?? '', port: Number(own.CLOCHE_PORT) };
  await mkdir(environments, { recursive: true, mode: 0o700 });
  // The files may contain a key.
  await chmod(environments, 0o700);
  for (const part of PART_NAMES) {
    const text = environmentFile(environmentFor(part, prepared, places, servedAt, settings));
    await writeFile(join(environments, `${part}.env`), text, { mode: 0o600 });
  }
  const servers = Number(own.CLOCHE_SERVERS);
  const trustedProxies = settingsFor('server', settings).CLOCHE_TRUSTED_PROXIES;
  if (servers > 1) writeBalancerConfig({ runDir: places.runDir, servedAt, servers, trustedProxies });
}

function requireFolder(name: string, given: string | undefined, ofUnits: string): void {
  if (given === ofUnits) return;
  throw new SetupError(
    `${name} is ${given}, and the systemd units have ${ofUnits}.`,
    `Leave ${name} out or set it to ${ofUnits}; for other folders, change the units by drop-ins as well.`,
  );
}

/** Returns the file in the format of systemd.exec(5): values in double quotes, with special characters escaped. */
export function environmentFile(environment: Readonly<Record<string, string>>): string {
  const lines = Object.entries(environment).map(([name, value]) => {
    if (/[\0\n\r]/.test(value)) throw new SetupError(`${name} has a line break in it.`, 'Take it out.');
    return `${name}="${value.replace(/["\\`$]/g, '\\$&')}"`;
  });
  return `${lines.join('\n')}\n`;
}
