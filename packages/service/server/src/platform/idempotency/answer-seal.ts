import { createHmac, hkdfSync } from 'node:crypto';
import { openText, sealText } from '../base/sealed-text.ts';
import { hashBody } from './hash-body.ts';
import { type IdempotencyScope, nameOf } from './idempotency-repository.ts';

const KEY_BYTES = 32;
const MARK = 'sealed:';

/**
 * Encrypts the stored answer of one request. The key is derived from the caller's own secret and the idempotency key,
 * and neither is stored, so only the same caller with the same idempotency key can read the answer.
 */
export class AnswerSeal {
  /** The scope with a hash in place of the idempotency key. */
  readonly scope: IdempotencyScope;
  readonly #key: Buffer;
  readonly #bodyKey: Buffer;

  /** @param secret the caller's secret; must be infeasible to guess */
  constructor(secret: string | Buffer, scope: IdempotencyScope) {
    const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', secret, scope.key, purpose, KEY_BYTES));
    this.scope = { ...scope, key: MARK + derive('cloche idempotency key').toString('base64url') };
    this.#key = derive('cloche idempotent answer');
    this.#bodyKey = derive('cloche idempotent request');
  }

  /** Returns the hex hash that identifies a request body. A guess of the body cannot be checked against it. */
  hashBody(body: unknown): string {
    return createHmac('sha256', this.#bodyKey).update(hashBody(body)).digest('hex');
  }

  seal(text: string): string {
    return MARK + sealText(text, this.#key, nameOf(this.scope));
  }

  /**
   * The context binds an answer to its record, so that it cannot be moved to another.
   *
   * @throws Error if `sealed` was not made by the seal of the same request.
   */
  open(sealed: string): string {
    return openText(sealed.slice(MARK.length), this.#key, nameOf(this.scope));
  }
}
