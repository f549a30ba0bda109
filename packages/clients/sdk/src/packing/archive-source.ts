/** How much of an archive was packed or sent. */
export interface ArchiveProgress {
  /** `packing` writes an archive that is too large to be sent while it is packed; `uploading` sends it. */
  readonly phase: 'packing' | 'uploading';
  readonly bytes: number;
  readonly totalBytes: number;
}

/** An archive that can be read any number of times, so that an upload can be repeated. */
export interface ArchiveSource extends AsyncDisposable {
  readonly format: 'tar' | 'tar.gz' | 'tar.zst';
  /** Size and SHA-256 of the archive, if it was packed in advance. */
  readonly packed: { readonly sizeBytes: number; readonly sha256: string } | undefined;
  /** Begins a new reading. Calls `onProgress` with what was read. */
  open(onProgress: (progress: ArchiveProgress) => void): AsyncIterable<Uint8Array>;
}

/** A file that an archive lacks because it is no file, directory or link, or that changed while it was packed. */
export interface PackingNote {
  readonly path: string;
  readonly reason: 'socket' | 'pipe' | 'device' | 'removed' | 'changed';
}

export interface PackOptions {
  /** Whether to compress. An archive that is packed in advance is always compressed. */
  readonly compress: boolean;
  /** Size of an archive up to which it is packed while it is sent. */
  readonly streamedBytes: number;
  readonly maxBytes: number;
  readonly maxEntries: number;
  readonly onNote: (note: PackingNote) => void;
  readonly onProgress: (progress: ArchiveProgress) => void;
  readonly signal: AbortSignal | undefined;
}

/** Packs a directory. */
export type PackDirectory = (directory: string, options: PackOptions) => Promise<ArchiveSource>;
