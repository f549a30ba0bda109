import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startInstallation } from '@cloche/setup';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { Api } from '../../support/api.ts';

export interface LyingService extends AsyncDisposable {
  readonly api: Api;
  readonly apiKey: string;
  serverPid(): number;
}

/** Starts a complete Cloche whose sandboxes run the agent of `lying-agent.ts`. */
export async function lyingService(): Promise<LyingService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'cloche-e2e-'));
  chmodSync(dataDir, 0o711);
  seedInstallationId(dataDir);
  const apiKey = `e2e-${randomBytes(16).toString('hex')}`;
  const programs = {
    hostd: 'e2e/security/support/lying-hostd.ts',
    egress: 'packages/egress/src/main.ts',
    server: 'packages/server/src/main.ts',
  };
  // Pooled instances are launched while the test measures, so few are kept.
  const env = { CLOCHE_BOOTSTRAP_API_KEY: apiKey, CLOCHE_POOL_SIZE: '2' };
  const installation = await startInstallation({ dataDir, env, supervise: false, programs });
  return {
    api: new Api(installation.url, apiKey),
    apiKey,
    serverPid: () => installation.pid('server') ?? Number.NaN,
    [Symbol.asyncDispose]: async () => {
      await installation.stop({ destroyAll: true });
      for (const folder of [dataDir, installation.runDir]) rmSync(folder, { recursive: true, force: true });
    },
  };
}
