import type { Readable } from 'node:stream';
import { LIMITS } from '@cloche/contract';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { AnswerSeal } from './answer-seal.ts';
import { hashBody } from './hash-body.ts';
import { HeldClaims } from './held-claims.ts';
import {
  type ClaimedRecord,
  type ClaimRequest,
  claimOwner,
  type IdempotencyRecords,
  type IdempotencyScope,
} from './idempotency-repository.ts';
import type { ReplayQuota } from './replay-quota.ts';
import type { ResultFiles } from './result-files.ts';
import { RECORD_BYTES, type ResultFile, type StoredResponse, storedBytesOf } from './stored-response.ts';

/** Attempts to claim or read a record. A retry is needed only if the record changes in between, which is rare. */
const ATTEMPTS = 10;
const RETRY_AFTER_SECONDS = 1;

export type Opened =
  | { readonly status: 'claimed'; readonly claim: Claim }
  | { readonly status: 'replay'; readonly response: StoredResponse };

/** Storage of large responses, and the limit on all stored responses. */
export interface ResponseStorage {
  readonly files?: ResultFiles;
  readonly quota?: ReplayQuota;
}

/** Decides whether a request with an Idempotency-Key is executed, replayed or refused. */
export class Idempotency {
  readonly #records: IdempotencyRecords;
  readonly #serverId: string;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #storage: ResponseStorage;
  readonly #held: HeldClaims;

  /** @param serverId owner of this server's claims, which are marked `failed` if the server dies. */
  constructor(
    records: IdempotencyRecords,
    serverId: string,
    clock: Clock,
    ids: IdSource,
    storage: ResponseStorage = {},
    held = new HeldClaims(),
  ) {
    this.#records = records;
    this.#serverId = serverId;
    this.#clock = clock;
    this.#ids = ids;
    this.#storage = storage;
    this.#held = held;
  }

  /**
   * Claims the record of a request or returns its stored response.
   *
   * @param seal encrypts the stored response of an operation whose body or response has a secret
   * @throws AppError `idempotency_key_reused`, `idempotency_request_in_progress` or `quota_exceeded`.
   */
  async open(given: IdempotencyScope, body: unknown, seal?: AnswerSeal): Promise<Opened> {
    const scope = seal?.scope ?? given;
    const bodyHash = seal?.hashBody(body) ?? hashBody(body);
    if (this.#isFull(scope)) await this.#requireRoom(scope);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const id = this.#ids.next('idem_');
      const owner = claimOwner(this.#serverId, id);
      const now = this.#clock.now();
      const expiresAt = now + LIMITS.idempotencyRetentionMs;
      const claimed = await this.#claim({ ...scope, id, bodyHash, owner, now, expiresAt });
      if (claimed !== undefined) {
        const isRetry = claimed.id !== id;
        const account = (bytes: number) => this.#storage.quota?.add(scope.orgId, expiresAt, bytes);
        const claim = new Claim({
          records: this.#records,
          record: claimed,
          held: this.#held,
          owner,
          isRetry,
          account,
          seal,
          ...this.#storage,
        });
        return { status: 'claimed', claim };
      }
      const record = await this.#records.find(scope);
      if (record && record.bodyHash !== bodyHash) throw reused();
      if (record?.state === 'completed' && record.response) {
        return { status: 'replay', response: opened(record.response, seal) };
      }
      if (record?.state === 'in_progress') throw inProgress();
      // The record was deleted, failed or expired after the claim was refused, so the next claim may succeed.
    }
    throw inProgress();
  }

  /** Writes an unrecorded response to the disk until it has been sent. */
  spool(json: Iterable<string> | AsyncIterable<string>): Promise<{ json: Readable; bytes: number }> {
    return requireFiles(this.#storage).spool(json);
  }

  /** Returns the JSON of a response that is stored in a file, which the first `next()` opens. */
  read(file: ResultFile): AsyncIterable<Buffer> {
    return requireFiles(this.#storage).read(file);
  }

  /** @throws AppError `unavailable` if this server is cut off from the database */
  async #claim(request: ClaimRequest): Promise<ClaimedRecord | undefined> {
    const { owner } = request;
    let claimed: ClaimedRecord | undefined;
    this.#held.add(owner);
    try {
      claimed = await this.#records.claim(request);
    } finally {
      if (!claimed) this.#held.delete(owner);
    }
    if (claimed) this.#held.require(owner);
    return claimed;
  }

  #isFull({ orgId }: IdempotencyScope): boolean {
    const { quota } = this.#storage;
    return quota !== undefined && quota.usedBytes(orgId, this.#clock.now()) >= quota.limitBytes;
  }

  /** Throws if the quota is used up and the request has no record to replay. A failed record does not count. */
  async #requireRoom(scope: IdempotencyScope): Promise<void> {
    const record = await this.#records.find(scope);
    if (!record || record.state === 'failed') this.#storage.quota?.require(scope.orgId, this.#clock.now());
  }
}

/** The exclusive claim to execute one request. The holder must end it exactly once, with one of its methods. */
export class Claim {
  readonly record: ClaimedRecord;
  readonly #deps: ClaimDeps;

  constructor(deps: ClaimDeps) {
    this.record = deps.record;
    this.#deps = deps;
    if (!deps.isRetry) deps.account(RECORD_BYTES);
  }

  get recordId(): string {
    return this.record.id;
  }

  /** Aborts `work` if this server is cut off from the database, because another server may then execute the request. */
  setWork(work: AbortController): void {
    this.#deps.held.setWork(this.#deps.owner, work);
  }

  /**
   * Stores the response. Call it before the response is sent, so that a response that a client has seen is always
   * replayed.
   */
  async complete(status: number, body: string): Promise<void> {
    await this.#complete({ status, body: this.#deps.seal?.seal(body) ?? body });
  }

  /** Completes the record with a large response, which is written to a file. Resolves when the file is on the disk. */
  async completeWithFile(status: number, json: Iterable<string>): Promise<ResultFile> {
    if (this.#deps.seal) throw new Error('a response with a secret is stored encrypted, never in a file');
    const file = await requireFiles(this.#deps).write(json);
    await this.#complete({ status, file });
    return file;
  }

  /**
   * Deletes the record of a rejected request. After an earlier failure, whose effects may exist, the failed record
   * stays.
   */
  async reject(): Promise<void> {
    if (this.#deps.isRetry) return this.fail();
    await this.#end((records, owner) => records.delete(this.recordId, owner));
    this.#deps.account(-RECORD_BYTES);
  }

  async fail(): Promise<void> {
    await this.#end((records, owner) => records.fail(this.recordId, owner));
  }

  /**
   * Ends the claim after `error`. If the record cannot be written now, a later heartbeat of this server marks it as
   * failed.
   */
  async endWith(error: unknown, log: Logger): Promise<void> {
    const isRejection = error instanceof AppError && error.status < 500;
    await this.#endBy(() => (isRejection ? this.reject() : this.fail()), log);
  }

  /** Ends the claim as failed, because the client has already received the error and it must not be replaced. */
  async failWith(log: Logger): Promise<void> {
    await this.#endBy(() => this.fail(), log);
  }

  async #endBy(end: () => Promise<void>, log: Logger): Promise<void> {
    // This server had to abandon its claims, because the database did not answer in time. Nothing is left to write.
    if (!this.#deps.held.has(this.#deps.owner)) return;
    try {
      await end();
    } catch (cause) {
      log.error({ err: cause, recordId: this.recordId }, 'idempotency record not ended');
    } finally {
      this.#deps.held.delete(this.#deps.owner);
    }
  }

  async #complete(response: StoredResponse): Promise<void> {
    const isOurs = await this.#end((records, owner) => records.complete(this.recordId, owner, response));
    if (!isOurs) throw claimLost();
    this.#deps.account(storedBytesOf(response) - RECORD_BYTES);
  }

  async #end<T>(write: (records: IdempotencyRecords, owner: string) => Promise<T>): Promise<T> {
    const { records, owner, held } = this.#deps;
    const written = await write(records, owner);
    held.delete(owner);
    return written;
  }
}

interface ClaimDeps extends ResponseStorage {
  readonly records: IdempotencyRecords;
  readonly record: ClaimedRecord;
  readonly held: HeldClaims;
  readonly owner: string;
  readonly isRetry: boolean;
  readonly seal: AnswerSeal | undefined;
  /** Adds to the bytes that the record uses of the quota. */
  readonly account: (bytes: number) => void;
}

function opened(response: StoredResponse, seal: AnswerSeal | undefined): StoredResponse {
  return seal && 'body' in response ? { ...response, body: seal.open(response.body) } : response;
}

function requireFiles({ files }: ResponseStorage): ResultFiles {
  if (!files) throw new Error('large responses need files');
  return files;
}

function reused(): AppError {
  return new AppError(
    'idempotency_key_reused',
    'This Idempotency-Key was already used with a different body; use a new key for a new operation.',
  );
}

function claimLost(): AppError {
  const message = 'The idempotency record was lost while its request was executed; send the request again.';
  return new AppError('unavailable', message);
}

function inProgress(): AppError {
  return new AppError(
    'idempotency_request_in_progress',
    'The first request with this Idempotency-Key is still running; repeat the request later to get its result.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}
