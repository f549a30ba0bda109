import type { OrgId } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import { type ShareLimits, Shares } from '../base/shares.ts';

/** What is left to handlers whose signal has aborted, to undo what they began. */
const UNWIND_MS = 2_000;

/** Requests under way, streams and terminals included: each takes two descriptors and some memory. */
const LIMITS: ShareLimits = { perOrganization: 1024, inAll: 4096 };

/** The client closed the connection before it had its answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';

  constructor() {
    super('the client closed the connection');
  }
}

/** Follows the requests that are being executed, so that a stopping server can end them in order. */
export class InFlight {
  readonly #interruptible = new Set<AbortController>();
  readonly #others = new Set<AbortController>();
  readonly #shares: Shares;
  #isDraining = false;
  #changed: (() => void) | undefined;

  constructor(limits = LIMITS) {
    this.#shares = new Shares(limits);
  }

  get size(): number {
    return this.#interruptible.size + this.#others.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /**
   * The signal of the request aborts when it has to end; `leave` when it has.
   *
   * @param isInterruptible loses nothing by ending early: a stream, or a wait for what somebody else does.
   * @throws AppError `rate_limited` or `unavailable` when too many are under way.
   */
  enter(orgId: OrgId, isInterruptible: boolean): AbortController {
    this.#take(orgId);
    const controller = new AbortController();
    (isInterruptible ? this.#interruptible : this.#others).add(controller);
    // Its headers came before the stop, its body after.
    if (isInterruptible && this.#isDraining) controller.abort(stopping());
    return controller;
  }

  leave(orgId: OrgId, controller: AbortController): void {
    this.#shares.give(orgId);
    this.#interruptible.delete(controller);
    this.#others.delete(controller);
    this.#changed?.();
  }

  /** Ends streams and waits at once and everything else after `graceMs`; resolves when nothing runs, or soon after. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const controller of this.#interruptible) controller.abort(stopping());
    await this.#untilEmpty(graceMs);
    for (const controller of this.#others) controller.abort(stopping());
    await this.#untilEmpty(UNWIND_MS);
  }

  #take(orgId: OrgId): void {
    const { perOrganization, inAll } = this.#shares.limits;
    switch (this.#shares.take(orgId)) {
      case 'organization is full':
        throw new AppError(
          'rate_limited',
          `The organization has ${perOrganization} active requests, streams included; wait until some have ended.`,
        );
      case 'all is full':
        throw new AppError('unavailable', `The service has ${inAll} active requests; try again in a moment.`);
    }
  }

  #untilEmpty(withinMs: number): Promise<void> {
    if (this.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        this.#changed = undefined;
        resolve();
      };
      const timer = setTimeout(finish, withinMs);
      this.#changed = () => {
        if (this.size === 0) finish();
      };
    });
  }
}

/** What a stopping server tells everybody. */
export function stopping(): AppError {
  return new AppError('unavailable', 'The service is stopping; send the request again in a moment.');
}
