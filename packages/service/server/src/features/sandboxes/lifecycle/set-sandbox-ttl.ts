import { LIMITS, type SandboxId } from '@cloche/contract';
import { AppError, invalidRequest } from '../../../platform/base/app-error.ts';
import { type Clock, timestamp } from '../../../platform/base/clock.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { requireAwake, type SandboxAccess, sandboxEnded, sandboxPaused } from '../../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';

type TtlCall = Pick<Call, 'credential' | 'audit'>;

/** Restarts the TTL countdown of live sandboxes. `ttl_expired` ends them at `expiresAt`, whichever server looks. */
export class SetSandboxTtl {
  readonly #access: SandboxAccess;
  readonly #sandboxes: SandboxRepository;
  readonly #clock: Clock;

  constructor(access: SandboxAccess, sandboxes: SandboxRepository, clock: Clock) {
    this.#access = access;
    this.#sandboxes = sandboxes;
    this.#clock = clock;
  }

  /**
   * Sets `expiresAt` to now + `ttlMs`.
   *
   * @throws AppError `sandbox_ttl_exceeded` past a cap, `invalid_request` when the expiry would not move later,
   * `sandbox_paused`, and `sandbox_destroyed` or `sandbox_failed` when the sandbox is not live.
   */
  async set(call: TtlCall, id: SandboxId, ttlMs: number): Promise<SandboxRecord> {
    for (;;) {
      const current = requireAwake(await this.#access.getLive(call.credential, id));
      const expiresAt = nextExpiry(current, ttlMs, this.#clock.now());
      const changed = await this.#sandboxes.setTtl(call, current, { ttlMs, expiresAt });
      if (changed) return changed;
    }
  }

  /**
   * Sets `expiresAt` to now + `ttlMs`, also to an earlier time, and to the last permitted time if that is later. Not an
   * operation of `/v1`, whose clients rely on an expiry that only moves later.
   *
   * @throws AppError `sandbox_destroyed` or `sandbox_failed` when the sandbox is not live.
   */
  async overwrite(call: TtlCall, id: SandboxId, givenMs: number): Promise<SandboxRecord> {
    for (;;) {
      const current = requireAwake(await this.#access.getLive(call.credential, id));
      const now = this.#clock.now();
      const ttlMs = Math.min(givenMs, maxTtl(current, now));
      const changed = await this.#sandboxes.setTtl(call, current, { ttlMs, expiresAt: now + ttlMs });
      if (changed) return changed;
    }
  }
}

/** Returns the longest TTL that a sandbox may get now. */
function maxTtl(current: SandboxRecord, now: number): number {
  // An expired sandbox cannot be extended, even if the reaper has not destroyed or paused it yet.
  if (current.expiresAt <= now) {
    throw current.pause.onExpiry ? sandboxPaused(current) : sandboxEnded({ ...current, endingReason: 'ttl_expired' });
  }
  const sessionLeftMs = Math.max(0, (current.sessionStartedAt ?? current.createdAt) + LIMITS.sessionMaxMs - now);
  return Math.min(LIMITS.updateTtlMaxMs, sessionLeftMs);
}

function nextExpiry(current: SandboxRecord, ttlMs: number, now: number): number {
  const maxTtlMs = maxTtl(current, now);
  if (ttlMs > maxTtlMs) {
    const message = `body.ttlMs must be at most ${maxTtlMs} now: a session lasts at most 24 hours.`;
    throw new AppError('sandbox_ttl_exceeded', message, { details: { maxTtlMs } });
  }
  const expiresAt = now + ttlMs;
  if (expiresAt > current.expiresAt) return expiresAt;
  throw invalidRequest({
    path: 'body.ttlMs',
    message: `must be more than ${current.expiresAt - now}: the new expiry must be later than ${timestamp(current.expiresAt)}`,
  });
}
