import type { PauseCause } from '@cloche/contract';
import { UNAUDITED } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Quotas } from '../quotas/quotas.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';

export interface BeginMoveDeps {
  readonly sandboxes: SandboxRepository;
  readonly quotas: Quotas;
  readonly servers: LiveServers;
}

/** Why a pause begins. `idleAt`: when the sandbox was found to be idle. */
export interface PauseReason {
  readonly by: PauseCause;
  readonly idleAt?: number;
}

/** Writes the moves that announce a pause or a wake, if quotas have room. Returns undefined if the record changed. */
export class BeginMove {
  readonly #deps: BeginMoveDeps;

  constructor(deps: BeginMoveDeps) {
    this.#deps = deps;
  }

  /** A pause at expiry has its place since the creation, so that no quota refuses it. @throws AppError */
  async pause(ready: SandboxRecord, { by, idleAt }: PauseReason): Promise<SandboxRecord | undefined> {
    const { sandboxes, quotas, servers } = this.#deps;
    const token = `${ready.id}-${ready.pauseEpoch + 1}`;
    const change = { owner: servers.own, token, pausedBy: by };
    if (by === 'expiry') return sandboxes.move(ready, 'beginPause', { ...change, due: {} });
    const due = idleAt === undefined ? {} : { due: { idleAt } };
    const pausedSandboxes = ready.pause.onExpiry ? 0 : 1;
    return quotas.admit(
      ready,
      async (tx, requireRoom) => {
        await requireRoom({ pausedSandboxes, pausedMemoryMb: ready.resources.memoryMb });
        return sandboxes.move(ready, 'beginPause', { ...change, ...due }, UNAUDITED, tx);
      },
      { announces: by === 'request' },
    );
  }

  /** @throws AppError `quota_exceeded`, `rate_limited` */
  wake(paused: SandboxRecord): Promise<SandboxRecord | undefined> {
    const { sandboxes, quotas, servers } = this.#deps;
    const { cpu, memoryMb } = paused.resources;
    return quotas.admit(paused, async (tx, requireRoom) => {
      await requireRoom({ liveSandboxes: 1, liveCpu: cpu, liveMemoryMb: memoryMb, wakesPerMinute: 1 });
      return sandboxes.move(paused, 'beginWake', { owner: servers.own }, UNAUDITED, tx);
    });
  }
}
