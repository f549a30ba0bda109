import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cgroupMounts } from '@cloche/host-checks';

/** Ten times that of a group that says nothing else, such as the one of all sandboxes. */
const WEIGHT = { cgroup: ['cpu.shares', '10240'], cgroup2: ['cpu.weight', '1000'] } as const;

const ENDS_WITHIN_MS = 5000;
const PAUSE_MS = 10;

/**
 * The cgroup of an installation's own processes, and of what hostd starts to launch a sandbox. They get the processor before
 * sandboxes do, so that however busy these are, the API answers. Units of systemd have `cloche.slice` in its place.
 */
export class PartsGroup {
  readonly #folder: string | undefined;

  /** Nothing is made where no hierarchy can be written, as in some containers: the parts run without. */
  constructor(installationId: string, mountInfo = readFileSync('/proc/self/mountinfo', 'utf8')) {
    const hierarchy = findProcessorHierarchy(mountInfo);
    if (hierarchy === undefined) return;
    const folder = join(hierarchy.place, `cloche-${installationId}-parts`);
    const [file, weight] = WEIGHT[hierarchy.type];
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, file), weight);
      this.#folder = folder;
    } catch {
      removeIfEmpty(folder);
    }
  }

  /** Moves a process that was just started, with all that it starts. Does nothing when it has ended. */
  join(pid: number): void {
    if (this.#folder === undefined) return;
    try {
      writeFileSync(join(this.#folder, 'cgroup.procs'), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /**
   * Once the parts have ended: waits a moment for what they had started. Idempotent. What a crash leaves is taken over by
   * the next start.
   */
  async remove(): Promise<void> {
    const folder = this.#folder;
    if (folder === undefined) return;
    const deadline = performance.now() + ENDS_WITHIN_MS;
    while (!removeIfEmpty(folder) && performance.now() < deadline) await delay(PAUSE_MS);
  }
}

/** Where the kernel decides whose turn it is. @param mountInfo content of `/proc/self/mountinfo` */
export function findProcessorHierarchy(mountInfo: string): { place: string; type: keyof typeof WEIGHT } | undefined {
  const mounts = cgroupMounts(mountInfo);
  const v1 = mounts.find(({ type, options }) => type === 'cgroup' && options.includes('cpu'));
  if (v1) return { place: v1.place, type: 'cgroup' };
  const v2 = mounts.find(({ type }) => type === 'cgroup2');
  return v2 && { place: v2.place, type: 'cgroup2' };
}

/** False while processes are in it. */
function removeIfEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'EBUSY') throw error;
    return code === 'ENOENT';
  }
}
