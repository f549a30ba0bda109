import { LIMITS } from '@cloche/contract';
import type { Logger } from 'pino';
import { AppError } from '../app-error.ts';
import type { Clock } from '../clock.ts';
import type { IdSource } from '../id-source.ts';
import { hashBody } from './canonical-json.ts';
import { claimOwner, type IdempotencyRecords, type IdempotencyScope } from './idempotency-repository.ts';

/** A record changes hands between the claim and the look at most now and then, never this often. */
const ATTEMPTS = 10;
const RETRY_AFTER_SECONDS = 1;

export type Opened =
  | { readonly status: 'claimed'; readonly claim: Claim }
  | { readonly status: 'replay'; readonly response: { readonly status: number; readonly body: string } };

/** Decides for each request with an Idempotency-Key: execute it, replay it, or refuse it. */
export class Idempotency {
  readonly #records: IdempotencyRecords;
  readonly #serverId: string;
  readonly #clock: Clock;
  readonly #ids: IdSource;

  /** What this server leaves in progress when it dies becomes `failed`. */
  constructor(records: IdempotencyRecords, serverId: string, clock: Clock, ids: IdSource) {
    this.#records = records;
    this.#serverId = serverId;
    this.#clock = clock;
    this.#ids = ids;
  }

  /** @throws AppError `idempotency_key_reused` or `idempotency_request_in_progress`. */
  async open(scope: IdempotencyScope, body: unknown): Promise<Opened> {
    const bodyHash = hashBody(body);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const id = this.#ids.next('idem_');
      const owner = claimOwner(this.#serverId, id);
      const now = this.#clock.now();
      const expiresAt = now + LIMITS.idempotencyRetentionMs;
      const claimed = await this.#records.claim({ ...scope, id, bodyHash, owner, now, expiresAt });
      if (claimed !== undefined) {
        return { status: 'claimed', claim: new Claim(this.#records, claimed, owner, claimed !== id) };
      }
      const record = await this.#records.find(scope);
      if (record && record.bodyHash !== bodyHash) throw reused();
      if (record?.state === 'completed' && record.response) return { status: 'replay', response: record.response };
      if (record?.state === 'in_progress') throw inProgress();
      // Withdrawn, failed or swept since the claim was refused: it may be had now.
    }
    throw inProgress();
  }
}

/** The right and the duty to execute one request; ended once, by one of its methods. */
export class Claim {
  readonly recordId: string;
  readonly #records: IdempotencyRecords;
  readonly #owner: string;
  readonly #isRetry: boolean;

  constructor(records: IdempotencyRecords, recordId: string, owner: string, isRetry: boolean) {
    this.#records = records;
    this.recordId = recordId;
    this.#owner = owner;
    this.#isRetry = isRetry;
  }

  /** Before the answer is sent, so that what a client has seen is always replayed. */
  async complete(status: number, body: string): Promise<void> {
    const isOurs = await this.#records.complete(this.recordId, this.#owner, status, body);
    if (!isOurs) throw new Error(`idempotency record ${this.recordId} was lost while its request was executed`);
  }

  /** A rejection leaves no record; after an earlier failure, whose effects may exist, the failed one stays. */
  async reject(): Promise<void> {
    if (this.#isRetry) await this.fail();
    else await this.#records.delete(this.recordId, this.#owner);
  }

  async fail(): Promise<void> {
    await this.#records.fail(this.recordId, this.#owner);
  }

  /** Ends it after `error`; a record that cannot be written now fails with this server's lease. */
  async endWith(error: unknown, log: Logger): Promise<void> {
    const isRejection = error instanceof AppError && error.status < 500;
    try {
      await (isRejection ? this.reject() : this.fail());
    } catch (cause) {
      log.error({ err: cause, recordId: this.recordId }, 'idempotency record not ended');
    }
  }
}

function reused(): AppError {
  return new AppError(
    'idempotency_key_reused',
    'This Idempotency-Key belongs to a request with another body; use a new key for a new operation.',
  );
}

function inProgress(): AppError {
  return new AppError(
    'idempotency_request_in_progress',
    'The first request with this Idempotency-Key is still running; send the same request again later for its result.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}
