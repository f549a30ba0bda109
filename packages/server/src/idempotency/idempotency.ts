import type { Readable } from 'node:stream';
import { LIMITS } from '@cloche/contract';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import { hashBody } from './canonical-json.ts';
import { claimOwner, type IdempotencyRecords, type IdempotencyScope } from './idempotency-repository.ts';
import type { ReplayQuota } from './replay-quota.ts';
import type { ResultFiles } from './result-files.ts';
import { RECORD_BYTES, type ResultFile, type StoredResponse, storedBytesOf } from './stored-response.ts';

/** A record changes hands between the claim and the look at most now and then, never this often. */
const ATTEMPTS = 10;
const RETRY_AFTER_SECONDS = 1;

export type Opened =
  | { readonly status: 'claimed'; readonly claim: Claim }
  | { readonly status: 'replay'; readonly response: StoredResponse };

/** Where large responses are kept, and the bound of all. */
export interface ResponseStorage {
  readonly files?: ResultFiles;
  readonly quota?: ReplayQuota;
}

/** Decides for each request with an Idempotency-Key: execute it, replay it, or refuse it. */
export class Idempotency {
  readonly #records: IdempotencyRecords;
  readonly #serverId: string;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #storage: ResponseStorage;

  /** What this server leaves in progress when it dies becomes `failed`. */
  constructor(
    records: IdempotencyRecords,
    serverId: string,
    clock: Clock,
    ids: IdSource,
    storage: ResponseStorage = {},
  ) {
    this.#records = records;
    this.#serverId = serverId;
    this.#clock = clock;
    this.#ids = ids;
    this.#storage = storage;
  }

  /** @throws AppError `idempotency_key_reused`, `idempotency_request_in_progress` or `quota_exceeded`. */
  async open(scope: IdempotencyScope, body: unknown): Promise<Opened> {
    const bodyHash = hashBody(body);
    await this.#requireRoom(scope);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const id = this.#ids.next('idem_');
      const owner = claimOwner(this.#serverId, id);
      const now = this.#clock.now();
      const expiresAt = now + LIMITS.idempotencyRetentionMs;
      const claimed = await this.#records.claim({ ...scope, id, bodyHash, owner, now, expiresAt });
      if (claimed !== undefined) {
        const isRetry = claimed !== id;
        const account = (bytes: number) => this.#storage.quota?.add(scope.orgId, expiresAt, bytes);
        const claim = new Claim({
          records: this.#records,
          recordId: claimed,
          owner,
          isRetry,
          account,
          ...this.#storage,
        });
        return { status: 'claimed', claim };
      }
      const record = await this.#records.find(scope);
      if (record && record.bodyHash !== bodyHash) throw reused();
      if (record?.state === 'completed' && record.response) return { status: 'replay', response: record.response };
      if (record?.state === 'in_progress') throw inProgress();
      // Withdrawn, failed or swept since the claim was refused: it may be had now.
    }
    throw inProgress();
  }

  /** Keeps a response that is not recorded on the disk until it is sent. */
  spool(json: Iterable<string>): Promise<{ json: Readable; bytes: number }> {
    return requireFiles(this.#storage).spool(json);
  }

  /** The JSON of a response that is in a file. */
  read(file: ResultFile): Promise<Readable> {
    return requireFiles(this.#storage).read(file);
  }

  /**
   * Throws if the quota is used up and the request has no record to be answered from. A failed record does not count.
   */
  async #requireRoom(scope: IdempotencyScope): Promise<void> {
    const { quota } = this.#storage;
    const now = this.#clock.now();
    if (!quota || quota.usedBytes(scope.orgId, now) < quota.limitBytes) return;
    const record = await this.#records.find(scope);
    if (!record || record.state === 'failed') quota.require(scope.orgId, now);
  }
}

/** The right and the duty to execute one request; ended once, by one of its methods. */
export class Claim {
  readonly recordId: string;
  readonly #deps: ClaimDeps;

  constructor(deps: ClaimDeps) {
    this.recordId = deps.recordId;
    this.#deps = deps;
    if (!deps.isRetry) deps.account(RECORD_BYTES);
  }

  /** Before the answer is sent, so that what a client has seen is always replayed. */
  async complete(status: number, body: string): Promise<void> {
    await this.#complete({ status, body });
  }

  /** Completes the record with a large answer, which is written to a file. Resolves when the file is on the disk. */
  async completeWithFile(status: number, json: Iterable<string>): Promise<ResultFile> {
    const file = await requireFiles(this.#deps).write(json);
    await this.#complete({ status, file });
    return file;
  }

  /** A rejection leaves no record; after an earlier failure, whose effects may exist, the failed one stays. */
  async reject(): Promise<void> {
    if (this.#deps.isRetry) return this.fail();
    await this.#deps.records.delete(this.recordId, this.#deps.owner);
    this.#deps.account(-RECORD_BYTES);
  }

  async fail(): Promise<void> {
    await this.#deps.records.fail(this.recordId, this.#deps.owner);
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

  async #complete(response: StoredResponse): Promise<void> {
    const { records, owner, account } = this.#deps;
    const isOurs = await records.complete(this.recordId, owner, response);
    if (!isOurs) throw new Error(`idempotency record ${this.recordId} was lost while its request was executed`);
    account(storedBytesOf(response) - RECORD_BYTES);
  }
}

interface ClaimDeps extends ResponseStorage {
  readonly records: IdempotencyRecords;
  readonly recordId: string;
  readonly owner: string;
  readonly isRetry: boolean;
  /** Counts bytes that the record takes from now on. */
  readonly account: (bytes: number) => void;
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

function inProgress(): AppError {
  return new AppError(
    'idempotency_request_in_progress',
    'The first request with this Idempotency-Key is still running; repeat the request later to get its result.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}
