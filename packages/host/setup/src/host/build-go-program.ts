import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { withLock } from '../build-lock.ts';
import { runLogged } from '../run-logged.ts';

const run = promisify(execFile);

export interface GoProgram {
  /** Path of the built program. */
  readonly place: string;
  /** Folder of a Go module that pins only the program's dependencies, each by version and digest. */
  readonly module: string;
  readonly package: string;
  /** Linker flags in addition to those that omit debug data. */
  readonly linkerFlags?: string;
}

/** Returns whether Go is installed. */
export function canBuildGoPrograms(): Promise<boolean> {
  return run('go', ['version']).then(
    () => true,
    () => false,
  );
}

/**
 * Builds a program unless it exists. Safe to interrupt and to repeat.
 *
 * @param onBuild called before a build, which takes minutes.
 */
export async function ensureGoProgram(program: GoProgram, cacheDir: string, onBuild: () => void): Promise<void> {
  const { place } = program;
  if (existsSync(place)) return;
  const name = basename(place);
  const building = join(cacheDir, 'building');
  await withLock(join(building, `${name}.lock`), async () => {
    if (existsSync(place)) return;
    onBuild();
    const folder = await mkdtemp(join(building, `${name}-`));
    try {
      await build(program, folder, name, join(building, `${name}.log`));
      await mkdir(dirname(place), { recursive: true });
      await rename(join(folder, name), place);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}

async function build(program: GoProgram, folder: string, name: string, logFile: string): Promise<void> {
  await cp(program.module, folder, { recursive: true });
  const flags = `-s -w ${program.linkerFlags ?? ''}`.trim();
  await runLogged('go', ['build', '-mod=readonly', '-trimpath', '-ldflags', flags, '-o', name, program.package], {
    logFile,
    cwd: folder,
    env: { ...process.env, CGO_ENABLED: '0' },
  });
}
