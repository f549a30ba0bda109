import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** Returns 192 random bits in characters that need no escaping in a URL, a header or a cookie. */
export function newPreviewToken(): string {
  return randomBytes(24).toString('base64url');
}

/** Hashes a token. A fast hash is enough, because tokens are long and random. */
export function hashPreviewToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

export function isPreviewToken(token: string, tokenHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashPreviewToken(token)), Buffer.from(tokenHash));
}
