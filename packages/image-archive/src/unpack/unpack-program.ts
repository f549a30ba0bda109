/**
 * `node unpack-image.cjs ARCHIVE FOLDER`, run as root inside a sandbox: unpacks an untrusted image into a folder that
 * does not exist yet. Prints one line of JSON: the result, or `{ error: { message } }` and exit code 1.
 */
import { mkdirSync, statfsSync, unlinkSync } from 'node:fs';
import { ArchiveFile } from '../read/archive-file.ts';
import { ImageError } from '../read/image-error.ts';
import { prepareRoot } from './prepare-root.ts';
import { unpackImage } from './unpack-image.ts';

const MAX_ENTRIES = 1_000_000;
/** Layers may replace each other's files, so all together can be larger than the disk. */
const DISKS = 4;

process.umask(0o022);
const [archive = '', folder = ''] = process.argv.slice(2);
const spool = `${archive}.plain`;

main().catch(() => {
  process.exitCode = 1;
});

async function main(): Promise<void> {
  try {
    mkdirSync(folder, { mode: 0o755 });
    const { bsize, bavail } = statfsSync(folder);
    const maxBytes = DISKS * bsize * bavail;
    try {
      const { config, ...counts } = await unpackImage(await ArchiveFile.open(archive, spool, maxBytes), folder, {
        maxEntries: MAX_ENTRIES,
        maxBytes,
      });
      prepareRoot(folder, config.workdir);
      const { platform, env, user, workdir } = config;
      console.log(JSON.stringify({ ...counts, platform, config: { env, user, workdir } }));
    } finally {
      remove(spool);
    }
  } catch (error) {
    process.exitCode = 1;
    const isKnown = error instanceof ImageError;
    console.log(
      JSON.stringify({ error: { message: isKnown ? error.message : `The image cannot be unpacked: ${error}` } }),
    );
  }
}

function remove(file: string): void {
  try {
    unlinkSync(file);
  } catch {
    // There is none if the archive was not compressed.
  }
}
