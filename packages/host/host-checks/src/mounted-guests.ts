import type { BigIntStats } from 'node:fs';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { GUEST_PATH } from '@cloche/layout';
import { OCI_RUNTIMES } from '@cloche/protocol';

/** A file that is different in every guest folder, unlike Node, which may be a hard link to the same file. */
const PROGRAM = 'agent.cjs';

/** First argument of the processes of sandboxes that have a kernel of their own. */
const OWN_KERNEL = new RegExp(
  `^(${OCI_RUNTIMES.flatMap(({ program, claims }) => (claims.kernel === 'own' ? [program] : [])).join('|')})`,
);

export interface MountedGuests {
  readonly mounted: ReadonlySet<string>;
  /** Whether there are sandboxes with a kernel of their own, whose mounts may not be visible to the host. */
  readonly hasHidden: boolean;
}

/**
 * Returns those of the guest folders that are mounted in a sandbox of this host, whichever installation launched it.
 * The kernel's mount tables are read, because mounts end with the sandbox, even after `kill -9`.
 */
export async function mountedGuests(folders: readonly string[], procDir = '/proc'): Promise<MountedGuests> {
  const byIdentity = new Map<string, string>();
  for (const folder of folders) {
    const identity = await identityOf(join(folder, PROGRAM));
    if (identity !== undefined) byIdentity.set(identity, folder);
  }
  const mounted = new Set<string>();
  let hasHidden = false;
  const seen = new Set([await namespaceOf(join(procDir, 'self'))]);
  for (const pid of (await readdir(procDir)).filter((name) => /^\d+$/.test(name))) {
    const namespace = await namespaceOf(join(procDir, pid));
    if (namespace === undefined || seen.has(namespace)) continue;
    hasHidden ||= OWN_KERNEL.test(await readFile(join(procDir, pid, 'cmdline'), 'utf8').catch(() => ''));
    const identity = await identityOf(join(procDir, pid, 'root', GUEST_PATH, PROGRAM));
    // Another process of the namespace may have another root.
    if (identity === undefined) continue;
    seen.add(namespace);
    const folder = byIdentity.get(identity);
    if (folder !== undefined) mounted.add(folder);
  }
  return { mounted, hasHidden };
}

/** Identifies a file also when it is seen through an overlay, which keeps number, size and time but not the device. */
async function identityOf(path: string): Promise<string | undefined> {
  const found: BigIntStats | undefined = await stat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.ino} ${found.size} ${found.mtimeNs}`;
}

async function namespaceOf(process: string): Promise<string | undefined> {
  return readlink(join(process, 'ns/mnt')).catch(() => undefined);
}
