import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildGuest } from '@cloche/agent/build-guest';
import { dataPaths } from '@cloche/layout';
import { effectiveSettings, settingsFor } from '@cloche/settings';
import { ensureServiceAccounts } from './host/service-account.ts';
import { startInstallation } from './installation/start-installation.ts';

/**
 * Ends every sandbox of the installation in the data folder, of which no service runs. Starts one for it, at an address
 * that no client knows, and stops it again. Installs nothing. Idempotent.
 *
 * @throws Error if a sandbox could not be ended; {SetupError} if a service runs
 */
export async function endSandboxes(env: NodeJS.ProcessEnv): Promise<void> {
  const settings = effectiveSettings(env);
  const own = settingsFor('setup', settings);
  const { CLOCHE_CACHE_DIR: cacheDir = '', CLOCHE_DATA_DIR: dataDir = '', CLOCHE_RUN_DIR: runDir } = own;
  // No service has ever run.
  if (!existsSync(dataPaths(dataDir).installationId)) return;
  const accounts = await ensureServiceAccounts(join(cacheDir, 'building', 'host.log'));
  const { guestDir } = await buildGuest({ cacheDir });
  const installation = await startInstallation({
    ...{ dataDir, cacheDir, settings, prepared: { accounts, guestDir } },
    ...(runDir !== undefined && { runDir }),
    env: { CLOCHE_POOL_SIZE: '0' },
  });
  await installation.stop({ destroyAll: true });
}
