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

/** Programs of hostd whose sandboxes lie: with the agent of `lying-agent.ts`, or by `lying-proxy.ts` before the agent. */
type Liar = 'lying-hostd.ts' | 'liar/fuzzing-hostd.ts';

/** Starts a complete Cloche whose sandboxes lie. */
export async function lyingService(liar: Liar = 'lying-hostd.ts'): Promise<LyingService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'cloche-e2e-'));
  chmodSync(dataDir, 0o711);
  seedInstallationId(dataDir);
  const apiKey = `e2e-${randomBytes(16).toString('hex')}`;
  const programs = {
    hostd: `e2e/security/support/${liar}`,
    egress: 'packages/host/egress/src/main.ts',
    server: 'packages/service/server/src/main.ts',
  };
  // Pooled instances are launched while the test measures, so few are kept.
  const env = { CLOCHE_BOOTSTRAP_API_KEY: apiKey, CLOCHE_POOL_SIZE: '1' };
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
