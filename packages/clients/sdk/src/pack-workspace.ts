import { LIMITS } from '@cloche/contract/client';
import type { ArchiveProgress, PackDirectory, PackingNote } from './packing/archive-source.ts';
import type { WorkspaceArchiveUpload } from './workspace-archive.ts';

export interface PackWorkspaceOptions {
  readonly compress: boolean;
  readonly onProgress?: ((progress: ArchiveProgress) => void) | undefined;
  readonly onNote?: ((note: PackingNote) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An archive of a directory, which can be sent any number of times until it is disposed. */
export interface PackedDirectory extends WorkspaceArchiveUpload, AsyncDisposable {
  readonly bytes: () => AsyncIterable<Uint8Array>;
}

/** Packs a directory by `pack`, within the limits of the service. */
export async function packWorkspace(
  pack: PackDirectory,
  directory: string,
  { compress, onProgress = () => undefined, onNote = () => undefined, signal }: PackWorkspaceOptions,
): Promise<PackedDirectory> {
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
