/** A host daemon as it is started in production, with an installation of its own. Needs root and built templates. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildGuest } from '@cloche/agent/build-guest';
import { dataPaths, runPaths } from '@cloche/layout';
import { newInstallationId } from '@cloche/testkit/installation-ids';
import { HostdDriver } from '../src/driver/hostd/hostd-driver.ts';

export interface HostdFixture {
  readonly driver: HostdDriver;
  /** Waits until nothing of it is left. */
  close(): Promise<void>;
}

/** Resolves when it serves. */
export async function openHostd(settings: Record<string, string> = {}): Promise<HostdFixture> {
  const cacheDir = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
  const { guestDir } = await buildGuest({ cacheDir });
  // Short, as paths of Unix sockets are.
  const folder = mkdtempSync('/tmp/cloche-');
  chmodSync(folder, 0o755);
  const [dataDir, runDir] = [join(folder, 'data'), join(folder, 'run')];
  for (const dir of [dataDir, runDir]) mkdirSync(dir, { mode: 0o755 });
  writeFileSync(dataPaths(dataDir).installationId, newInstallationId());
  const child = startHostd({
    CLOCHE_DATA_DIR: dataDir,
    CLOCHE_RUN_DIR: runDir,
    CLOCHE_CACHE_DIR: cacheDir,
    CLOCHE_GUEST_DIR: guestDir,
    CLOCHE_SERVICE_UID: '65534',
    CLOCHE_SERVICE_GID: '65534',
    CLOCHE_LOG_LEVEL: 'warn',
    CLOCHE_POOL_SIZE: '0',
    ...settings,
  });
  const driver = new HostdDriver(runPaths(runDir).hostdSocket);
  await serving(driver, child);
  return {
    driver,
    close: async () => {
      await Promise.all((await driver.list()).map((one) => driver.stop(one.sandboxId, one.generation)));
      await driver.close();
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function startHostd(environment: Record<string, string>): ChildProcess {
  const program = fileURLToPath(import.meta.resolve('@cloche/hostd'));
  const namespaces = ['--mount', '--propagation', 'private'];
  return spawn('unshare', [...namespaces, '--', process.execPath, program], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
}

async function serving(driver: HostdDriver, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    try {
      return await driver.check(AbortSignal.timeout(5_000));
    } catch {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  throw new Error('hostd ended before it served');
}
