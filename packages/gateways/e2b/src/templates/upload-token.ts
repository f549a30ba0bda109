import { GatewayError } from '@cloche/kit';
import type { TokenSeal } from '../e2b-deps.ts';

const KIND = 'template-files';
/** As long as E2B's clients wait for the end of an upload. */
const LIFETIME_MS = 3_600_000;

/** The right to store the files of one `COPY`. */
export interface Upload {
  readonly apiKey: string;
  /** SHA-256 that the client gives the files. */
  readonly hash: string;
}

/** Returns the token of an upload URL, with which a client sends files without its key. It holds the key, encrypted. */
export function issueUploadToken({ apiKey, hash }: Upload, seal: TokenSeal): string {
  return seal.seal(JSON.stringify([KIND, apiKey, hash, Date.now() + LIFETIME_MS]));
}

/**
 * Returns what a token permits.
 *
 * SECURITY: the token of a sandbox permits no upload: held by "an upload without its token, too large or cut off" in
 * e2b-templates.test.ts.
 *
 * @throws GatewayError 403
 */
export function readUploadToken(token: string, seal: TokenSeal): Upload {
  const [kind, apiKey, hash, expiresAt] = opened(token, seal);
  if (kind === KIND && Number(expiresAt) > Date.now()) return { apiKey: String(apiKey), hash: String(hash) };
  throw new GatewayError(403, 'The URL of this upload is invalid or has expired; start the build again.');
}

function opened(token: string, seal: TokenSeal): unknown[] {
  try {
    return JSON.parse(seal.open(token)) as unknown[];
  } catch {
    return [];
  }
}
