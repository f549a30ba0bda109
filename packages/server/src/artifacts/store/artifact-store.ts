import type { Readable } from 'node:stream';

/** Stores contents by their SHA-256 digest, independent of artifacts. */
export interface ArtifactStore {
  /**
   * Stores a local file as the content with that digest. May move the file. Idempotent and atomic.
   *
   * @throws when the stored bytes do not have the digest.
   */
  put(file: string, content: { sha256: string; sizeBytes: number }): Promise<void>;
  has(sha256: string): Promise<boolean>;
  /** Returns the bytes from `start` to `end`, both inclusive. @throws ContentMissingError */
  read(sha256: string, range: { start: number; end: number } | undefined, signal: AbortSignal): Promise<Readable>;
  /** Idempotent. */
  remove(sha256: string): Promise<void>;
  /** Lists every content and the time it was stored, in any order. */
  list(): AsyncIterable<{ sha256: string; storedAt: number }>;
  close(): Promise<void>;
}

export class ContentMissingError extends Error {
  override readonly name = 'ContentMissingError';

  constructor(sha256: string, options?: ErrorOptions) {
    super(`the store has no content ${sha256}`, options);
  }
}

/** The store failed or does not respond. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
