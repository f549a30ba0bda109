import { LIMITS } from '@cloche/contract';

/** Limits on a request before its sender is authenticated. */
export interface BeforeKey {
  /** Bytes of the request line and the fields. */
  readonly headBytes: number;
  readonly headFields: number;
  /** Bytes of the body that are kept. What a client sends all the same is dropped. */
  readonly bodyBytes: number;
  /** Seconds for the head to arrive. */
  readonly seconds: number;
}

/** The limits of each front on the API's port before authentication. */
export const BEFORE_KEY: BeforeKey = { headBytes: LIMITS.headerBytes, headFields: 256, bodyBytes: 0, seconds: 10 };

/**
 * Seconds for the head on a socket of the service's own processes. A busy host can stop one of them for longer than
 * strangers may take.
 */
export const OWN_HEAD_SECONDS = 60;

/** Limits on a body after authentication. */
export interface BodyBounds {
  /** `any` is passed on as it comes, and kept nowhere. */
  readonly bytes: number | 'any';
  /** Bytes after decompression; 0 if compressed bodies are refused. */
  readonly decompressedBytes: number | 'any';
  /** Values and levels of JSON; 0 if the body is not JSON. */
  readonly jsonValues: number;
  readonly jsonLevels: number;
  /** Seconds for the body to arrive; `stall` if only the time between two of its bytes is limited; `any` if none is. */
  readonly seconds: number | 'stall' | 'any';
}

/** A row of the table of fronts: a place where requests arrive, and what one request of it can take. */
export interface Front {
  /** What a request must have to be served. */
  readonly opens: string;
  readonly before: BeforeKey;
  /** Why more is read before the key is checked, or no key is needed. */
  readonly reason?: string;
  readonly body: BodyBounds;
  /** Unanswered requests of one connection. */
  readonly pipelined: number;
  /** Which limit of connections counts it. */
  readonly connections: 'by address' | 'of its user';
  /** Which limits or quotas count a request. */
  readonly pays: string;
}
