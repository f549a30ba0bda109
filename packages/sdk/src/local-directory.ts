import { LIMITS } from '@cloche/contract';
import type { ArchiveProgress, PackingNote } from './packing/archive-source.ts';
import { packDirectory as pack } from './packing/pack-directory.ts';
import type { WorkspaceArchiveUpload } from './workspace-archive.ts';

export interface PackDirectoryOptions {
  /** Whether to compress a small directory, which a service on the same machine receives faster as it is. Default: true. */
  compress?: boolean | undefined;
  /** Receives how much was packed or read. */
  onProgress?: ((progress: ArchiveProgress) => void) | undefined;
  /** Receives what the archive lacks, such as sockets, and files that changed while they were packed. */
  onNote?: ((note: PackingNote) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** An archive of a directory, which can be sent any number of times until it is disposed. */
export interface PackedDirectory extends WorkspaceArchiveUpload, AsyncDisposable {
  readonly bytes: () => AsyncIterable<Uint8Array>;
}

/**
 * Packs a directory of the disk, without what its `.gitignore` and `.clocheignore` files leave out.
 *
 * ```ts
 * await using archive = await packDirectory('site');
 * await sandbox.files.unpack('/workspace', archive.bytes);
 * ```
 *
 * @throws {ClocheError} `packing_failed`, which names files that cannot be read and links that lead out
 */
export async function packDirectory(directory: string, options: PackDirectoryOptions = {}): Promise<PackedDirectory> {
  const { compress = true, onProgress = () => undefined, onNote = () => undefined, signal } = options;
  const source = await pack(directory, {
    compress,
    streamedBytes: LIMITS.workspaceArchiveBytes,
    maxBytes: LIMITS.workspaceArchiveTransferBytes,
    maxEntries: LIMITS.workspaceArchiveEntries,
    onNote,
    onProgress,
    signal,
  });
  return {
    format: source.format,
    ...source.packed,
    bytes: () => source.open(onProgress),
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  };
}
