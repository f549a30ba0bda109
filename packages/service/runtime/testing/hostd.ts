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
import { LaunchError } from '../src/driver/runtime-driver.ts';

export interface HostdFixture {
  readonly driver: HostdDriver;
  /**
   * Ends hostd and starts another one, which announces these versions of protocols by the names of their constants.
   * Instances live on. Resolves when it serves.
   */
  restart(protocols?: Readonly<Record<string, number>>): Promise<void>;
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
  const versions = join(folder, 'versions.json');
  const environment = {
    ANNOUNCED_PROTOCOLS: versions,
    CLOCHE_DATA_DIR: dataDir,
    CLOCHE_RUN_DIR: runDir,
    CLOCHE_CACHE_DIR: cacheDir,
    CLOCHE_GUEST_DIR: guestDir,
    CLOCHE_SERVICE_UID: '65534',
    CLOCHE_SERVICE_GID: '65534',
    CLOCHE_LOG_LEVEL: 'warn',
    CLOCHE_POOL_SIZE: '0',
    ...settings,
  };
  const driver = new HostdDriver(runPaths(runDir).hostdSocket);
  const start = async (protocols: Readonly<Record<string, number>> = {}) => {
    writeFileSync(versions, JSON.stringify(protocols));
    const started = startHostd(environment);
    await serving(driver, started);
    return started;
  };
  let child = await start();
  const end = async () => {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };
  return {
    driver,
    restart: async (protocols) => {
      await end();
      child = await start(protocols);
    },
    close: async () => {
      const live = (await driver.list()).flatMap((place) => ('instances' in place ? place.instances : []));
      await Promise.all(live.map((one) => driver.stop(one.sandboxId, one.generation)));
      await driver.close();
      await end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function startHostd(environment: Record<string, string>): ChildProcess {
  const program = fileURLToPath(import.meta.resolve('@cloche/hostd'));
  const preload = import.meta.resolve('@cloche/testkit/announced-protocols');
  const namespaces = ['--mount', '--propagation', 'private'];
  return spawn('unshare', [...namespaces, '--', process.execPath, '--import', preload, program], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
}

async function serving(driver: HostdDriver, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    try {
      await driver.check(AbortSignal.timeout(5_000));
      return;
    } catch (error) {
      if (error instanceof LaunchError && error.kind === 'incompatible') return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  throw new Error('hostd ended before it served');
}
