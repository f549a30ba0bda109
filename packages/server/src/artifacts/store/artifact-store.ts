import type { Readable } from 'node:stream';

/** Keeps contents by their digest. Knows nothing of artifacts. */
export interface ArtifactStore {
  /**
   * Takes a file of this host over as the content of that digest; afterwards the file may be gone. Idempotent, and all
   * or nothing.
   *
   * @throws when what was stored does not have the digest.
   */
  put(file: string, content: { sha256: string; sizeBytes: number }): Promise<void>;
  has(sha256: string): Promise<boolean>;
  /** The bytes from `start` to `end`, both included. @throws ContentMissing */
  read(sha256: string, range: { start: number; end: number } | undefined, signal: AbortSignal): Promise<Readable>;
  /** Idempotent. */
  remove(sha256: string): Promise<void>;
  /** Every content, in any order, with when it was put. */
  list(): AsyncIterable<{ sha256: string; storedAt: number }>;
  close(): Promise<void>;
}

export class ContentMissing extends Error {
  override readonly name = 'ContentMissing';

  constructor(sha256: string, options?: ErrorOptions) {
    super(`the store has no content ${sha256}`, options);
  }
}

/** The store does not do what it is asked for now. */
export class StoreFault extends Error {
  override readonly name = 'StoreFault';
}
