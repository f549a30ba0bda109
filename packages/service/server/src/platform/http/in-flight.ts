import type { ApiKeyId, OrgId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { AppError } from '../base/app-error.ts';
import { ConcurrencyLimit, type ConcurrencyLimits } from '../base/concurrency-limit.ts';
import { CutOffError } from '../idempotency/held-claims.ts';
import type { OpenWork } from '../keys/end-key-work.ts';

/** Time for handlers to undo their work after their signal has aborted. */
const UNWIND_MS = 2_000;

/** Most concurrent requests, streams and terminals included. Each takes two file descriptors and some memory. */
const LIMITS: ConcurrencyLimits = { perOrganization: 1024, total: 4096 };

/** The client closed the connection before the response was complete. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';

  constructor() {
    super('the client closed the connection');
  }
}

interface Caller {
  readonly orgId: OrgId;
  /** Undefined for a request with a signed link. */
  readonly apiKeyId: ApiKeyId | undefined;
}

/** Tracks active requests, so that a stopping server can end them in order, and a key's requests end with the key. */
export class InFlight implements OpenWork {
  readonly #interruptible = new Map<AbortController, ApiKeyId | undefined>();
  readonly #others = new Map<AbortController, ApiKeyId | undefined>();
  readonly #limit: ConcurrencyLimit;
  #isDraining = false;
  #emptied: PromiseWithResolvers<void> | undefined;

  constructor(limits = LIMITS) {
    this.#limit = new ConcurrencyLimit(limits);
  }

  get size(): number {
    return this.#interruptible.size + this.#others.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /**
   * Registers a request and returns the controller that aborts it. Call `leave` when the request has ended.
   *
   * @param isInterruptible whether ending early loses nothing, as for a stream or a wait.
   * @throws AppError `rate_limited` or `unavailable` when too many requests are active.
   */
  enter({ orgId, apiKeyId }: Caller, isInterruptible: boolean): AbortController {
    this.#take(orgId);
    const controller = new AbortController();
    (isInterruptible ? this.#interruptible : this.#others).set(controller, apiKeyId);
    // The headers arrived before the stop and the body after it.
    if (isInterruptible && this.#isDraining) controller.abort(stopping());
    return controller;
  }

  leave({ orgId }: Pick<Caller, 'orgId'>, controller: AbortController): void {
    this.#limit.release(orgId);
    this.#interruptible.delete(controller);
    this.#others.delete(controller);
    if (this.size === 0) this.#emptied?.resolve();
  }

  /**
   * Aborts interruptible requests at once and all others after `graceMs`. Resolves when no request is active, or
   * shortly after that.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const controller of this.#interruptible.keys()) controller.abort(stopping());
    await this.#untilEmpty(graceMs);
    for (const controller of this.#others.keys()) controller.abort(stopping());
    await this.#untilEmpty(UNWIND_MS);
  }

  keyIds(): Set<ApiKeyId> {
    const ids = [...this.#interruptible.values(), ...this.#others.values()];
    return new Set(ids.filter((id) => id !== undefined));
  }

  endKey(id: ApiKeyId, reason: AppError, except?: AbortSignal): void {
    for (const [controller, apiKeyId] of [...this.#interruptible, ...this.#others]) {
      if (apiKeyId === id && controller.signal !== except) controller.abort(reason);
    }
  }

  #take(orgId: Caller['orgId']): void {
    const { perOrganization, total } = this.#limit.limits;
    switch (this.#limit.acquire(orgId)) {
      case 'organization_limit':
        throw new AppError(
          'rate_limited',
          `The organization has ${perOrganization} active requests, streams included; wait until some have ended.`,
        );
      case 'total_limit':
        throw new AppError('unavailable', `The service has ${total} active requests; try again in a moment.`);
    }
  }

  async #untilEmpty(withinMs: number): Promise<void> {
    if (this.size === 0) return;
    this.#emptied = Promise.withResolvers();
    using limit = new Deadline(withinMs);
    await limit.race(this.#emptied.promise).catch(() => undefined);
  }
}

/** Returns the error for requests that a stopping server does not serve. */
export function stopping(): AppError {
  return new AppError('unavailable', 'The service is stopping; send the request again in a moment.');
}

/** Returns why the request ended early, if its client left, its key stopped working or the server was cut off. */
export function endOf({ reason }: AbortSignal): Error | undefined {
  const isKeyEnd = reason instanceof AppError && reason.is('unauthorized');
  return isKeyEnd || reason instanceof CutOffError || reason instanceof ClientGoneError ? reason : undefined;
}
