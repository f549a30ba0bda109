import { invalidRequest } from '../../base/app-error.ts';

const FIELD = 'headers.content-digest';
/** Matches one member of the dictionary that the header is (RFC 9530). */
const SHA_256 = /(?:^|,)\s*sha-256=:([A-Za-z0-9+/]{43}=):\s*(?:$|,)/;

/**
 * Returns the SHA-256 of a `Content-Digest` header in hexadecimal; undefined without the header.
 *
 * @throws AppError `invalid_request` for a header without a SHA-256, which could not be checked
 */
export function readContentDigest(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const [, digest] = SHA_256.exec(header) ?? [];
  if (digest === undefined) {
    throw invalidRequest({ path: FIELD, message: 'must contain the SHA-256 of the body as sha-256=:<base64>:' });
  }
  return Buffer.from(digest, 'base64').toString('hex');
}

/** @throws AppError `invalid_request` if the body has another digest than its header states */
export function requireDigest(stated: string | undefined, sha256: string): void {
  if (stated === undefined || stated === sha256) return;
  const message = `differs from the body that arrived, whose SHA-256 is ${sha256}; send the archive again`;
  throw invalidRequest({ path: FIELD, message });
}
