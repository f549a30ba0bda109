import { closeSync, openSync, readSync } from 'node:fs';
import { InvalidTarError, readTarHeader, TAR_BLOCK_BYTES } from '@cloche/archive';

/** First entry of an archive of `cloche template export`; `@cloche/setup` writes it. */
const FIRST_ENTRY = 'cloche-templates.json';

/** Returns whether a file is an archive of curated templates, by its first entry; false for what cannot be read. */
export function isTemplateArchive(file: string): boolean {
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  try {
    const descriptor = openSync(file, 'r');
    try {
      if (readSync(descriptor, block, 0, block.length, 0) < block.length) return false;
    } finally {
      closeSync(descriptor);
    }
    return readTarHeader(block)?.name === FIRST_ENTRY;
  } catch (error) {
    // The reader of images says what is wrong with it.
    if (error instanceof InvalidTarError || (error as NodeJS.ErrnoException).code !== undefined) return false;
    throw error;
  }
}
