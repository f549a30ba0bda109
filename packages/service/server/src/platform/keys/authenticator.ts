import { timingSafeEqual } from 'node:crypto';
import type { OrgId } from '@cloche/contract';
import { AppError, unavailable } from '../base/app-error.ts';
import { type Clock, isWithin } from '../base/clock.ts';
import { type ApiKeyRecord, grantedScopes } from './api-key.ts';
import { hashApiKey, parseApiKey } from './api-key-format.ts';
import type { ApiKeyRepository } from './api-key-repository.ts';
import type { ChosenKeyHash } from './chosen-key-hash.ts';
import type { Credential } from './credential.ts';
import { KeyUses } from './key-uses.ts';

/** Most credentials kept, enough for a busy installation. Beyond this, the cache is cleared. */
const CREDENTIALS_KEPT = 10_000;
/** Longest time for which a cached credential is used before the key is read from the database again. */
const KEPT_MS = 30_000;
/** Longest time for reading a key. After it, the key may have been revoked since, and is read again. */
const READ_MS = 10_000;

interface Remembered {
  readonly credential: Credential;
  readonly expiresAt: number | undefined;
  /** Time from which the key must be read from the database again. */
  readonly usableUntil: number;
}

/** Coordinates the key caches of the servers of one database. */
export interface OtherKeyCaches {
  /** Time until which this server may cache keys that it reads now; 0 if it may not cache them. */
  readonly usableUntil: number;
  /** Resolves when no other server uses keys that it cached before this call, or when `signal` aborts. */
  outdate(signal?: AbortSignal): Promise<void>;
}

/**
 * Finds the credential of a key. Caches known keys by their hashes, never by the keys. Code that revokes or changes
 * keys must call `forgetEverywhere`, so that a revocation holds for the next request to any server.
 */
export class Authenticator {
  readonly #keys: ApiKeyRepository;
  readonly #clock: Clock;
  readonly #others: OtherKeyCaches | undefined;
  readonly #remembered = new Map<string, Remembered>();
  readonly uses: KeyUses;
  #chosen: { readonly digest: string; readonly hash: ChosenKeyHash } | undefined;
  #changes = 0;

  /** @param others undefined if the database has one server */
  constructor(keys: ApiKeyRepository, clock: Clock, others?: OtherKeyCaches) {
    this.#keys = keys;
    this.#clock = clock;
    this.#others = others;
    this.uses = new KeyUses(keys);
  }

  /** Changes with every call of `forget`. */
  get changes(): number {
    return this.#changes;
  }

  /**
   * Returns the credential of a valid key.
   *
   * @throws AppError `unauthorized` for a key that is malformed, unknown, revoked or expired; `unavailable` if the
   * database took too long twice.
   */
  async authenticate(key: string): Promise<Credential> {
    const secretHash = hashApiKey(key);
    const known = this.#remembered.get(secretHash);
    const isUsable = known && isWithin(KEPT_MS, known.usableUntil - KEPT_MS, this.#clock.now());
    const remembered = isUsable ? known : await this.#read(key, secretHash);
    const now = this.#clock.now();
    if (remembered.expiresAt !== undefined && remembered.expiresAt <= now) throw expired();
    this.uses.note(remembered.credential.apiKeyId, now);
    return remembered.credential;
  }

  /**
   * Accepts one free-form key, and keeps its fast hash in memory so that a request with a wrong key needs no slow hash.
   */
  acceptChosen(chosen: { readonly key: string; readonly hash: ChosenKeyHash } | undefined): void {
    this.#chosen = chosen && { digest: hashApiKey(chosen.key), hash: chosen.hash };
  }

  /**
   * Returns a secret that belongs to a valid key. It cannot be read from the database, nor guessed quickly with its
   * help.
   */
  sealingSecret(key: string): string | Buffer {
    return this.#chosen && sameHash(this.#chosen.digest, hashApiKey(key)) ? this.#chosen.hash.sealingSecret : key;
  }

  /** Returns the organization of a key that was checked and is still cached. */
  orgOf(key: string): OrgId | undefined {
    return this.#remembered.get(hashApiKey(key))?.credential.orgId;
  }

  /** Clears the cache of this server. */
  forget(): void {
    this.#changes++;
    this.#remembered.clear();
  }

  /** Clears the caches of all servers. Call it after the commit of any change of keys. */
  async forgetEverywhere(signal?: AbortSignal): Promise<void> {
    this.forget();
    await this.#others?.outdate(signal);
  }

  async #read(key: string, secretHash: string, isSecond = false): Promise<Remembered> {
    const before = this.#changes;
    const sentAt = this.#clock.now();
    // Computed before the key is read, so that the time does not exceed what was allowed when the key had this state.
    const usableUntil = Math.min(sentAt + KEPT_MS, this.#others?.usableUntil ?? Number.POSITIVE_INFINITY);
    this.#remembered.delete(secretHash);
    const found = await this.#find(key, secretHash);
    if (this.#clock.now() - sentAt >= READ_MS) {
      if (isSecond) throw unavailable('The database answers too slowly to check the API key; try again.');
      return this.#read(key, secretHash, true);
    }
    if (found.revokedAt !== undefined) throw unauthorized('The API key was revoked; use another key.');
    const remembered = { credential: toCredential(found), expiresAt: found.expiresAt, usableUntil };
    // A key read before a change may be outdated.
    if (before === this.#changes) {
      if (this.#remembered.size >= CREDENTIALS_KEPT) this.#remembered.clear();
      this.#remembered.set(secretHash, remembered);
    }
    return remembered;
  }

  async #find(key: string, secretHash: string): Promise<ApiKeyRecord> {
    const parsed = parseApiKey(key);
    if (parsed.kind === 'generated') {
      const found = await this.#keys.findByPublicPart(parsed.publicPart);
      if (found && sameHash(found.secretHash, secretHash)) return found;
    } else if (this.#chosen && sameHash(this.#chosen.digest, secretHash)) {
      const found = await this.#keys.findBySecretHash(this.#chosen.hash.stored);
      if (found) return found;
    }
    throw unauthorized(
      parsed.kind === 'mistyped'
        ? 'The API key is mistyped: its checksum is wrong. Copy the whole key again.'
        : 'The API key is unknown; check that it belongs to this service.',
    );
  }
}

function expired(): AppError {
  return unauthorized('The API key has expired; use another key.');
}

export function unauthorized(message: string): AppError {
  return new AppError('unauthorized', message);
}

function sameHash(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

function toCredential(key: ApiKeyRecord): Credential {
  return {
    apiKeyId: key.id,
    orgId: key.orgId,
    scopes: grantedScopes(key),
    projectIds: key.projectIds && new Set(key.projectIds),
  };
}
