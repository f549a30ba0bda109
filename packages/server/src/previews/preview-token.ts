import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 192 random bits in letters that a URL, a header and a cookie carry as they are. */
export function newPreviewToken(): string {
  return randomBytes(24).toString('base64url');
}

/** A token is random and long, so a fast hash keeps it. */
export function hashPreviewToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

export function isPreviewToken(token: string, tokenHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashPreviewToken(token)), Buffer.from(tokenHash));
}
