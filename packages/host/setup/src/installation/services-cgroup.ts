import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cgroupMounts } from '@cloche/host-checks';

/** Ten times the default weight, which the group of all sandboxes has. */
const WEIGHT = { cgroup: ['cpu.shares', '10240'], cgroup2: ['cpu.weight', '1000'] } as const;

const ENDS_WITHIN_MS = 5000;
const PAUSE_MS = 10;

/**
 * The cgroup of an installation's own processes, and of programs that hostd starts to launch a sandbox. They have
 * priority over sandboxes, so that the API answers however busy the sandboxes are. Systemd units use `cloche.slice`
 * instead.
 */
export class ServicesCgroup {
  readonly #folder: string | undefined;

  /** Creates the group. Without a writable hierarchy, as in some containers, the parts run without a group. */
  constructor(installationId: string, mountInfo = readFileSync('/proc/self/mountinfo', 'utf8')) {
    const hierarchy = findProcessorHierarchy(mountInfo);
    if (hierarchy === undefined) return;
    const folder = join(hierarchy.mountPoint, `cloche-${installationId}-parts`);
    const [file, weight] = WEIGHT[hierarchy.type];
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, file), weight);
      this.#folder = folder;
    } catch {
      removeIfEmpty(folder);
    }
  }

  /** Moves a newly started process, and so its future children, to the group. Does nothing when it has ended. */
  join(pid: number): void {
    if (this.#folder === undefined) return;
    try {
      writeFileSync(join(this.#folder, 'cgroup.procs'), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /**
   * Removes the group after the parts have ended; waits shortly for their children. Idempotent. After a crash, the next
   * start reuses the group.
   */
  async remove(): Promise<void> {
    const folder = this.#folder;
    if (folder === undefined) return;
    const deadline = performance.now() + ENDS_WITHIN_MS;
    while (!removeIfEmpty(folder) && performance.now() < deadline) await delay(PAUSE_MS);
  }
}

/**
 * Finds the hierarchy with the processor's controller.
 * @param mountInfo content of `/proc/self/mountinfo`
 */
export function findProcessorHierarchy(
  mountInfo: string,
): { mountPoint: string; type: keyof typeof WEIGHT } | undefined {
  const mounts = cgroupMounts(mountInfo);
  const v1 = mounts.find(({ type, options }) => type === 'cgroup' && options.includes('cpu'));
  if (v1) return { mountPoint: v1.mountPoint, type: 'cgroup' };
  const v2 = mounts.find(({ type }) => type === 'cgroup2');
  return v2 && { mountPoint: v2.mountPoint, type: 'cgroup2' };
}

/** Returns false while the group has processes. */
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
