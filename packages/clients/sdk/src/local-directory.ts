import { type PackedDirectory, packWorkspace } from './pack-workspace.ts';
import type { ArchiveProgress, PackingNote } from './packing/archive-source.ts';
import { packDirectory as pack } from './packing/pack-directory.ts';

export type { PackedDirectory } from './pack-workspace.ts';

export interface PackDirectoryOptions {
  /**
   * Whether to compress a small directory, which a service on the same machine receives faster as it is. Default: true.
   */
  compress?: boolean | undefined;
  /** Receives how much was packed or read. */
  onProgress?: ((progress: ArchiveProgress) => void) | undefined;
  /** Receives what the archive lacks, such as sockets, and files that changed while they were packed. */
  onNote?: ((note: PackingNote) => void) | undefined;
  signal?: AbortSignal | undefined;
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
export function packDirectory(directory: string, options: PackDirectoryOptions = {}): Promise<PackedDirectory> {
  return packWorkspace(pack, directory, { ...options, compress: options.compress ?? true });
}
