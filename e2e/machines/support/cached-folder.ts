import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from '@cloche/setup';

/** Folder of what the tests of machines keep. */
export const MACHINES = join(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche', 'machines');
/** Longer than any test takes. */
const OLD_MS = 3_600_000;

/** Returns a folder that `fill` fills once for each digest. Removes those of older digests. */
export async function cachedFolder(
  name: string,
  digest: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(MACHINES, `${name}-${digest}`);
  mkdirSync(MACHINES, { recursive: true });
  return withLock(join(MACHINES, `${name}.lock`), async () => {
    if (existsSync(folder)) return folder;
    for (const older of globSync(join(MACHINES, `${name}-*`))) {
      // A test of another checkout may use younger ones now.
      if (statSync(older).mtimeMs < Date.now() - OLD_MS) rmSync(older, { recursive: true });
    }
    const filling = mkdtempSync(join(MACHINES, 'building-'));
    try {
      await fill(filling);
      renameSync(filling, folder);
    } finally {
      rmSync(filling, { recursive: true, force: true });
    }
    return folder;
  });
}

/** Returns a digest of the names and contents of files. */
export function digestOf(files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(file));
  return hash.digest('hex').slice(0, 12);
}
