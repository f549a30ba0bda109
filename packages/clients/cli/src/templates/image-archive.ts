import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArchiveFile, type ImageConfig, ImageError, ownPlatform, readImage } from '@cloche/image-archive';
import { CliError } from '../cli-error.ts';

/**
 * Platforms that a service can have; only the service knows its own. The images of one archive have the same settings.
 */
const PLATFORMS = new Set([ownPlatform(), 'linux/amd64', 'linux/arm64']);

/** Reads the settings of the image in an archive, and so finds a wrong file before it is uploaded. */
export async function readImageArchive(file: string): Promise<ImageConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'cloche-image-'));
  try {
    return configOf(await ArchiveFile.open(file, join(folder, 'plain'), Number.MAX_SAFE_INTEGER));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof ImageError) throw new CliError(`${file}: ${message}`);
    if (code === 'ENOENT') throw new CliError(`${file} does not exist.`);
    if (code === 'EISDIR') throw new CliError(`${file} is a directory; give an archive of \`docker save\`.`);
    throw error;
  } finally {
    await rm(folder, { recursive: true });
  }
}

function configOf(archive: ArchiveFile): ImageConfig {
  let first: unknown;
  for (const platform of PLATFORMS) {
    try {
      return readImage(archive, platform).config;
    } catch (error) {
      first ??= error;
    }
  }
  throw first;
}
