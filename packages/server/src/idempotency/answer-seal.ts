import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { type IdempotencyScope, nameOf } from './idempotency-repository.ts';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MARK = 'sealed:';

/**
 * Encrypts the stored answer of one request. The key is derived from the caller's own secret and the idempotency key,
 * and neither is stored, so only the same caller with the same idempotency key can read the answer.
 */
export class AnswerSeal {
  /** The scope with a hash in place of the idempotency key. */
  readonly scope: IdempotencyScope;
  readonly #key: Buffer;

  /** @param secret the caller's secret; must be infeasible to guess */
  constructor(secret: string | Buffer, scope: IdempotencyScope) {
    const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', secret, scope.key, purpose, KEY_BYTES));
    this.scope = { ...scope, key: MARK + derive('cloche idempotency key').toString('base64url') };
    this.#key = derive('cloche idempotent answer');
  }

  seal(text: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(this.#context);
    const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return MARK + Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url');
  }

  /** @throws Error if `sealed` was not made by the seal of the same request. */
  open(sealed: string): string {
    const bytes = Buffer.from(sealed.slice(MARK.length), 'base64url');
    const decipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(this.#context).setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  }

  /** Binds an answer to its record, so that it cannot be moved to another. */
  get #context(): Buffer {
    return Buffer.from(nameOf(this.scope));
  }
}
