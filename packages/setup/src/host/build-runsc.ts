import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { cachePlaces, GVISOR_VERSION } from '@cloche/protocol';
import { withLock } from '../build-lock.ts';
import { runLogged } from '../run-logged.ts';

const run = promisify(execFile);

/** A Go module of nothing but what runsc takes, each dependency by version and digest. */
export const GVISOR_MODULE = fileURLToPath(new URL('../../gvisor', import.meta.url));

/** Whether this machine has a Go to build it with. */
export function canBuildRunsc(): Promise<boolean> {
  return run('go', ['version']).then(
    () => true,
    () => false,
  );
}

/**
 * Builds gVisor's runtime where it is not there yet. Safe to cut off and to repeat.
 *
 * @param onBuild called before a build, which takes minutes.
 */
export async function ensureRunsc(cacheDir: string, onBuild: () => void = () => {}): Promise<void> {
  const { runsc } = cachePlaces(cacheDir);
  if (existsSync(runsc)) return;
  const building = join(cacheDir, 'building');
  await withLock(join(building, 'runsc.lock'), async () => {
    if (existsSync(runsc)) return;
    onBuild();
    const folder = await mkdtemp(join(building, 'runsc-'));
    try {
      await build(folder, join(building, 'runsc.log'));
      await mkdir(dirname(runsc), { recursive: true });
      await rename(join(folder, 'runsc'), runsc);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}

async function build(folder: string, logFile: string): Promise<void> {
  await cp(GVISOR_MODULE, folder, { recursive: true });
  const version = `-X gvisor.dev/gvisor/runsc/version.version=${GVISOR_VERSION}`;
  const options = ['-mod=readonly', '-trimpath', '-ldflags', `-s -w ${version}`, '-o', 'runsc'];
  await runLogged('go', ['build', ...options, 'gvisor.dev/gvisor/runsc'], {
    logFile,
    cwd: folder,
    env: { ...process.env, CGO_ENABLED: '0' },
  });
}
