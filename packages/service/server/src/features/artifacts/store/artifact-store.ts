import type { Readable } from 'node:stream';

/** A content to store. */
export interface NewContent {
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Name of the content; by default its digest. */
  readonly name?: ContentName;
  /** Whether the file must stay where it is; otherwise it may be moved. */
  readonly keepsFile?: boolean;
}

/** 64 hexadecimal digits: the SHA-256 of a content, or random ones for a content that has an owner of its own. */
export type ContentName = string;

/** A signed request with which a client uploads a content directly to a bucket. */
export interface SignedPut {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A content under another name, which no other content ever gets. */
export interface SetAsideContent {
  readonly name: ContentName;
  /** Gives the content its name again, unless the name has been stored again. Idempotent. */
  putBack(): Promise<void>;
  /** Idempotent. Never affects a content that was stored or put back. */
  remove(): Promise<void>;
}

/** A request that removes a content, and that the store refuses when its time is up. */
export interface PreparedRemoval {
  /** Milliseconds from now after which the request can no longer take effect, however late it is sent or arrives. */
  readonly arrivesWithinMs: number;
  /** Sends the request once. @throws NoAnswerError if it may be carried out later */
  send(): Promise<void>;
}

/** Removes contents in two steps: between them, a content can be put back. */
export interface ContentAsides {
  /** Renames a content: `read` still finds it, `has` and `list` do not. Returns undefined if it is missing. */
  setAside(name: ContentName): Promise<SetAsideContent | undefined>;
  /** Lists the contents set aside, also by processes that have ended. */
  list(): AsyncIterable<SetAsideContent>;
}

/** Stores contents by their names, independent of artifacts. */
export interface ArtifactStore {
  /** Undefined for a bucket, which cannot rename. */
  readonly asides: ContentAsides | undefined;
  /**
   * Stores a local file as the content with that digest. Idempotent and atomic.
   *
   * @throws when the stored bytes do not have the digest.
   */
  put(file: string, content: NewContent): Promise<void>;
  /** @param signal may end the wait for a bucket */
  has(name: ContentName, signal?: AbortSignal): Promise<boolean>;
  /** Returns the bytes from `start` to `end`, both inclusive. @throws ContentMissingError */
  read(name: ContentName, range: { start: number; end: number } | undefined, signal: AbortSignal): Promise<Readable>;
  /** Idempotent. Sends one request at most. @throws NoAnswerError if it may be carried out later */
  remove(name: ContentName): Promise<void>;
  /** Prepares the removal of a content; undefined if the store has none. For stores that do not set contents aside. */
  prepareRemoval(name: ContentName): Promise<PreparedRemoval | undefined>;
  /** Lists every content and the time it was stored, in any order. */
  list(): AsyncIterable<{ name: ContentName; storedAt: number }>;
  /** Returns the path of a content; undefined for a store that is not a local folder. */
  fileOf(name: ContentName): string | undefined;
  /**
   * Signs a request that stores the content, valid for `expiresInMs`; undefined for a store that accepts no such
   * requests. The store refuses another size, and other bytes if it checks digests.
   */
  signPut(content: Required<Omit<NewContent, 'keepsFile'>>, expiresInMs: number): Promise<SignedPut | undefined>;
  close(): Promise<void>;
}

export class ContentMissingError extends Error {
  override readonly name = 'ContentMissingError';

  constructor(name: ContentName, options?: ErrorOptions) {
    super(`the store has no content ${name}`, options);
  }
}

/** The store failed or does not respond. */
export class StoreError extends Error {
  override readonly name: string = 'StoreError';
}

/** The store gave no answer. The request may still take effect. */
export class NoAnswerError extends StoreError {
  override readonly name = 'NoAnswerError';
}
