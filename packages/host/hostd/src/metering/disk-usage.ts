import { statfsSync } from 'node:fs';

/** Magic number of overlay file systems, which a sandbox's root is. */
const OVERLAYFS = 0x794c_7630;

/** Bytes and inodes that files occupy on the disk of a sandbox, and their limits. */
export interface DiskUsage {
  bytes: number;
  limitBytes: number;
  inodes: number;
  limitInodes: number;
}

/**
 * Returns the disk usage of a sandbox, read through the first of these processes whose root is the sandbox's root: the
 * sandbox's mounts exist only in the namespaces of its processes. Returns undefined if none of the processes has such a
 * root.
 */
export function diskUsage(pids: Iterable<number>): DiskUsage | undefined {
  for (const pid of pids) {
    const usage = diskOf(pid);
    if (usage) return usage;
  }
  return undefined;
}

function diskOf(pid: number): DiskUsage | undefined {
  let stat: ReturnType<typeof statfsSync>;
  try {
    stat = statfsSync(`/proc/${pid}/root`);
  } catch {
    // The process has ended, or ends now.
    return undefined;
  }
  if (stat.type !== OVERLAYFS) return undefined;
  const usedBlocks = stat.blocks - stat.bfree;
  return {
    bytes: usedBlocks * stat.bsize,
    limitBytes: (usedBlocks + stat.bavail) * stat.bsize,
    inodes: stat.files - stat.ffree,
    limitInodes: stat.files,
  };
}
