import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from './clock.ts';
import { decodeExactly } from './exact-base64url.ts';

/** A link as a client sends it. */
export interface GivenLink {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly expires: string;
  readonly signature: string;
}

export interface SignedLinksOptions {
  readonly key: Buffer;
  /** Name of the purpose of the key, which the signature covers. */
  readonly purpose: string;
  /** Path before the id, without a trailing slash. */
  readonly path: string;
}

/**
 * Signs and checks links that open one resource without an API key, until they expire.
 *
 * SECURITY: the signature covers the id and the expiry, and its key signs nothing else; held by "a link opens its own
 * artifact alone, and until it expires" in artifacts.test.ts.
 */
export class SignedLinks {
  readonly #options: SignedLinksOptions;
  readonly #clock: Clock;

  constructor(options: SignedLinksOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Returns the path and query of a link. */
  sign(id: string, expiresAt: number): string {
    const signature = this.#signatureOf(id, String(expiresAt)).toString('base64url');
    return `${this.#options.path}/${id}?expires=${expiresAt}&signature=${signature}`;
  }

  /** Returns whether the service signed the link and the link has not expired. */
  isValid({ id, expires, signature }: GivenLink): boolean {
    const given = decodeExactly(signature);
    const expected = this.#signatureOf(id, expires);
    if (given?.length !== expected.length || !timingSafeEqual(given, expected)) return false;
    return Number(expires) > this.#clock.now();
  }

  #signatureOf(id: string, expires: string): Buffer {
    const { key, purpose } = this.#options;
    return createHmac('sha256', key).update(`${purpose}\n${id}\n${expires}`).digest();
  }
}
