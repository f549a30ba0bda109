import { LIMITS, type SandboxId, type WakeCause, type WakeMode } from '@cloche/contract';
import { BackOff, Deadline, KeyCounts, orAbort, pause } from '@cloche/node-support';
import { AppError, notFound, unavailable } from '../../platform/base/app-error.ts';
import type { Changes } from '../../platform/base/changes.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireAwake } from '../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { PauseMoves, Waking } from './pause-moves.ts';

/** Time limit of a wake. Each request that waits for it has its own time limit besides. */
const WAKE_MS = 30_000;
/** How often a wait looks whether the server that makes a move has ended. */
const LOOK_MS = 250;
const SETTLE_PAUSES = { firstMs: 1, longestMs: 1_000 };
/** Pauses between attempts while the gate of an agent is closed although its sandbox is not paused. */
const GATE_PAUSES = { firstMs: 20, longestMs: 1_000 };

export interface WakeSandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly moves: PauseMoves;
  readonly changes: Changes<SandboxId>;
}

/** Causes that wake a sandbox, by the mode of its policy. */
const WAKES: Readonly<Record<WakeMode, readonly WakeCause[]>> = {
  explicit: ['request'],
  requests: ['request', 'operation'],
  traffic: ['request', 'operation', 'traffic'],
};

const BY_OPERATION: Waking = { by: 'operation' };

/** Wakes paused sandboxes: once for any number of requests, which wait for it. */
export class WakeSandbox {
  readonly #deps: WakeSandboxDeps;
  readonly #wakes = new Map<SandboxId, Promise<SandboxRecord>>();
  /** Requests that wait, by sandbox. */
  readonly #waiting = new KeyCounts<SandboxId>();

  constructor(deps: WakeSandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the record when the sandbox is not paused; it may have ended. Waits for a pause that is under way, and wakes
   * it then, unless its policy forbids that.
   *
   * @param waking how to wake it, unless another request wakes it already
   * @param call has the audit event of a request for the wake
   * @throws AppError `sandbox_paused`, `quota_exceeded`, `unavailable`; the reason of `signal` when it aborts
   */
  async awake(
    seen: SandboxRecord,
    signal: AbortSignal,
    waking: Waking = BY_OPERATION,
    call: Audited = UNAUDITED,
  ): Promise<SandboxRecord> {
    if (!factsOf(seen).needsWake) return seen;
    const { id, pause } = seen;
    using _ = this.#wait(id);
    // The program that served a preview has ended with the memory.
    const isInVain = waking.by === 'traffic' && factsOf(seen).hasLostMemory;
    if (isInVain || !WAKES[pause.wake].includes(waking.by)) return requireAwake(await this.settled(id, signal));
    return await orAbort(this.#wakes.get(id) ?? this.#begin(id, waking, call), signal);
  }

  /**
   * Waits until the agent's gate may be open, after it has refused a request with `pausing`.
   *
   * @param backOff the pauses of this request
   * @throws AppError as `awake`
   */
  async passGate(
    id: SandboxId,
    signal: AbortSignal,
    backOff: BackOff,
    waking: Waking = BY_OPERATION,
  ): Promise<SandboxRecord> {
    const record = await this.#deps.sandboxes.find(id);
    if (!record) throw notFound('sandbox', id);
    if (factsOf(record).needsWake) return this.awake(record, signal, waking);
    await backOff.pause(signal);
    signal.throwIfAborted();
    return record;
  }

  static gatePauses(): BackOff {
    return new BackOff(GATE_PAUSES);
  }

  /** Resolves when the sandbox is neither on its way into nor out of a pause. */
  async settled(id: SandboxId, signal: AbortSignal): Promise<SandboxRecord> {
    return this.#until(id, signal, (record) => !factsOf(record).isMoving);
  }

  /** Counts a request that waits, until it is disposed. @throws AppError `unavailable` */
  #wait(id: SandboxId): Disposable {
    if (this.#waiting.total >= LIMITS.wakeWaiters || this.#waiting.of(id) >= LIMITS.wakeWaitersPerSandbox) {
      throw unavailable('Too many requests wait for the sandbox to wake; try again.');
    }
    return this.#waiting.add(id);
  }

  #begin(id: SandboxId, waking: Waking, call: Audited): Promise<SandboxRecord> {
    const awake = this.#wake(id, waking, call).finally(() => this.#wakes.delete(id));
    // Each request that waits gets the rejection; none may be left.
    awake.catch(() => undefined);
    this.#wakes.set(id, awake);
    return awake;
  }

  async #wake(id: SandboxId, waking: Waking, call: Audited): Promise<SandboxRecord> {
    using limit = new Deadline(WAKE_MS);
    try {
      for (;;) {
        const record = await this.settled(id, limit.signal);
        if (!factsOf(record).needsWake) return record;
        await this.#deps.moves.wake(call, record, waking);
        limit.signal.throwIfAborted();
      }
    } catch (error) {
      if (error instanceof AppError || limit.endedBy === undefined) throw error;
      throw unavailable('The sandbox did not wake in time; try again.', error);
    }
  }

  /** Returns the record when `isOver`. Settles moves of servers that have ended. */
  async #until(id: SandboxId, signal: AbortSignal, isOver: (record: SandboxRecord) => boolean): Promise<SandboxRecord> {
    const { sandboxes, moves, changes } = this.#deps;
    using watch = changes.watch(id);
    const backOff = new BackOff(SETTLE_PAUSES);
    for (;;) {
      const changed = watch.next();
      const record = await sandboxes.find(id);
      if (!record) throw notFound('sandbox', id);
      if (isOver(record)) return record;
      if (await moves.settle(record, { forRequest: true })) await backOff.pause(signal);
      else await orAbort(Promise.race([changed, pause(LOOK_MS, signal, { ref: false })]), signal);
      signal.throwIfAborted();
    }
  }
}
