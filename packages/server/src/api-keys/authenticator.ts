import { timingSafeEqual } from 'node:crypto';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import { hashApiKey, parseApiKey } from './api-key-format.ts';
import { type ApiKey, type ApiKeyRepository, grantedScopes } from './api-key-repository.ts';
import type { Credential } from './credential.ts';

/** Most credentials kept, enough for a busy installation. Beyond this, the cache is cleared. */
const CREDENTIALS_KEPT = 10_000;

interface Remembered {
  readonly credential: Credential;
  readonly expiresAt: number | undefined;
}

/**
 * Finds the credential of a key. Caches known keys by their hashes, never by the keys. Code that revokes or changes
 * keys must call `forget`, so that a revocation holds for the next request.
 */
export class Authenticator {
  readonly #keys: ApiKeyRepository;
  readonly #clock: Clock;
  readonly #remembered = new Map<string, Remembered>();
  #chosen: { readonly digest: string; readonly secretHash: string } | undefined;
  #forgotten = 0;

  constructor(keys: ApiKeyRepository, clock: Clock) {
    this.#keys = keys;
    this.#clock = clock;
  }

  /**
   * Returns the credential of a valid key.
   *
   * @throws AppError `unauthorized` for a key that is malformed, unknown, revoked or expired.
   */
  async authenticate(key: string): Promise<Credential> {
    const secretHash = hashApiKey(key);
    const remembered = this.#remembered.get(secretHash) ?? (await this.#read(key, secretHash));
    if (remembered.expiresAt !== undefined && remembered.expiresAt <= this.#clock.now()) {
      throw unauthorized('The API key has expired; use another key.');
    }
    return remembered.credential;
  }

  /**
   * Accepts one free-form key, and keeps its fast hash in memory so that a request with a wrong key needs no slow hash.
   *
   * @param secretHash hash of the key in the database
   */
  acceptChosen(...chosen: [key: string, secretHash: string] | [undefined]): void {
    const [key, secretHash] = chosen;
    this.#chosen = key === undefined || secretHash === undefined ? undefined : { digest: hashApiKey(key), secretHash };
  }

  /** Clears the cache. Call it after any change of keys. */
  forget(): void {
    this.#forgotten++;
    this.#remembered.clear();
  }

  async #read(key: string, secretHash: string): Promise<Remembered> {
    const before = this.#forgotten;
    const found = await this.#find(key, secretHash);
    if (found.revokedAt !== undefined) throw unauthorized('The API key was revoked; use another key.');
    const remembered = { credential: toCredential(found), expiresAt: found.expiresAt };
    // A key read before a change may be outdated.
    if (before === this.#forgotten) {
      if (this.#remembered.size >= CREDENTIALS_KEPT) this.#remembered.clear();
      this.#remembered.set(secretHash, remembered);
    }
    return remembered;
  }

  async #find(key: string, secretHash: string): Promise<ApiKey> {
    const parsed = parseApiKey(key);
    if (parsed.kind === 'generated') {
      const found = await this.#keys.findByPublicPart(parsed.publicPart);
      if (found && sameHash(found.secretHash, secretHash)) return found;
    } else if (this.#chosen && sameHash(this.#chosen.digest, secretHash)) {
      const found = await this.#keys.findBySecretHash(this.#chosen.secretHash);
      if (found) return found;
    }
    throw unauthorized(
      parsed.kind === 'mistyped'
        ? 'The API key is mistyped: its checksum is wrong. Copy the whole key again.'
        : 'The API key is unknown; check that it belongs to this service.',
    );
  }
}

export function unauthorized(message: string): AppError {
  return new AppError('unauthorized', message);
}

function sameHash(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

function toCredential(key: ApiKey): Credential {
  return {
    apiKeyId: key.id,
    orgId: key.orgId,
    scopes: grantedScopes(key),
    projectIds: key.projectIds && new Set(key.projectIds),
  };
}
