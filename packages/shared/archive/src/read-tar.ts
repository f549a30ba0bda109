import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import { ByteReader, brokenOff } from './byte-reader.ts';
import { TAR_BLOCK_BYTES } from './tar-header.ts';
import { type ReadTarOptions, TarParser } from './tar-parser.ts';

/** Limit of what follows the end of an archive. Writers fill up a last record, which may have up to 16 MiB. */
const MAX_PADDING_BYTES = 16 * 1024 * 1024;

/**
 * Yields the entries of a tar archive. Throws `bad_archive`. Our own code, because libraries decode names as UTF-8 and
 * set no bound on records (docs/adr/0008-tar-is-read-here.md).
 */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  options: ReadTarOptions = {},
): AsyncGenerator<ArchiveEntry, void> {
  for await (const group of readTarGroups(source, options)) yield* group;
}

/**
 * Does what `readTar` does, and yields together the entries that have arrived together, because an asynchronous step
 * for each entry takes longer than reading a small file. A content that is not in memory belongs to the last entry of
 * its group. The content in memory is valid until the next group is read, if the chunks of `source` are no longer.
 */
export async function* readTarGroups(
  source: AsyncIterable<Uint8Array>,
  options: ReadTarOptions = {},
): AsyncGenerator<readonly ArchiveEntry[], void> {
  const bytes = new ByteReader(source);
  const parser = new TarParser(bytes, options);
  for (;;) {
    const group: ArchiveEntry[] = [];
    let next: ReturnType<TarParser['next']> | undefined;
    try {
      do {
        next = parser.next();
        if (typeof next === 'object') group.push(next);
      } while (typeof next === 'object' && next.bytes !== undefined);
    } finally {
      // Before an error of a later entry: an earlier one can be the first that is wrong.
      if (group.length > 0) yield group;
    }
    if (next === 'end') return requireEnd(bytes);
    if (typeof next !== 'number' || (await bytes.fill(next))) continue;
    // Some writers omit the zeros at the end.
    if (bytes.isEmpty && next === TAR_BLOCK_BYTES) return;
    throw brokenOff();
  }
}

async function requireEnd(bytes: ByteReader): Promise<void> {
  const after = TAR_BLOCK_BYTES + MAX_PADDING_BYTES;
  if ((await bytes.skipUpTo(after + 1)) > after) throw invalidArchive('it has more than padding after its end');
}
