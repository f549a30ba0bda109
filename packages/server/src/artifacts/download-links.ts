import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';

const SECRET_NAME = 'artifact-downloads';
export const DOWNLOAD_PATH = '/downloads/artifacts';

/**
 * Signs and checks links that download one artifact without an API key, until they expire.
 *
 * SECURITY: the signature covers the artifact's id and the expiry, and its key signs nothing else; held by "a link
 * opens its own artifact alone, and until it expires" in artifacts.test.ts.
 */
export class DownloadLinks {
  readonly #key: Buffer;
  readonly #clock: Clock;

  constructor(key: Buffer, clock: Clock) {
    this.#key = key;
    this.#clock = clock;
  }

  /** Returns the path and query of a link. */
  sign(artifactId: string, expiresAt: number): string {
    const signature = this.#signatureOf(artifactId, String(expiresAt)).toString('base64url');
    return `${DOWNLOAD_PATH}/${artifactId}?expires=${expiresAt}&signature=${signature}`;
  }

  /** Returns whether the service signed the link and the link has not expired. */
  isValid(artifactId: string, expires: string, signature: string): boolean {
    const given = Buffer.from(signature, 'base64url');
    const expected = this.#signatureOf(artifactId, expires);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
    return Number(expires) > this.#clock.now();
  }

  #signatureOf(artifactId: string, expires: string): Buffer {
    return createHmac('sha256', this.#key).update(`${SECRET_NAME}\n${artifactId}\n${expires}`).digest();
  }
}

/** Returns the signing key. It is created once and shared by all servers of the database. */
export function downloadKey(db: Database): Promise<Buffer> {
  return serverSecret(db, SECRET_NAME);
}
