import type { MemoryMode, PauseCause } from '@cloche/contract';
import { UNAUDITED } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Quotas } from '../quotas/quotas.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';

export interface BeginMoveDeps {
  readonly sandboxes: SandboxRepository;
  readonly quotas: Quotas;
  readonly servers: LiveServers;
}

/** Why a pause begins. `idleAt`: when the sandbox was found to be idle. */
export interface PauseReason {
  readonly by: PauseCause;
  readonly memory: MemoryMode;
  readonly idleAt?: number;
}

/** Writes the moves that announce a pause or a wake, if quotas have room. Returns undefined if the record changed. */
export class BeginMove {
  readonly #deps: BeginMoveDeps;

  constructor(deps: BeginMoveDeps) {
    this.#deps = deps;
  }

  /** A pause at expiry has its place since the creation, so that no quota refuses it. @throws AppError */
  async pause(ready: SandboxRecord, { by, memory, idleAt }: PauseReason): Promise<SandboxRecord | undefined> {
    const { sandboxes, quotas, servers } = this.#deps;
    const token = `${ready.id}-${ready.pauseEpoch + 1}`;
    const toDisk = memory === 'drop';
    const move = toDisk ? 'beginPark' : 'beginPause';
    const lost = toDisk ? ({ lostReason: 'asked' } as const) : {};
    const change = { owner: servers.own, token, pausedBy: by, pausedMemory: memory, ...lost };
    if (by === 'expiry') return sandboxes.move(ready, move, { ...change, due: {} });
    const due = idleAt === undefined ? {} : { due: { idleAt } };
    const pausedSandboxes = ready.pause.onExpiry ? 0 : 1;
    return quotas.admit(
      ready,
      async (tx, requireRoom) => {
        await requireRoom({ pausedSandboxes, pausedMemoryMb: toDisk ? 0 : ready.resources.memoryMb });
        return sandboxes.move(ready, move, { ...change, ...due }, UNAUDITED, tx);
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
      const owner = servers.own;
      if (!factsOf(paused).hasLostMemory) return sandboxes.move(paused, 'beginWake', { owner }, UNAUDITED, tx);
      return sandboxes.move(paused, 'beginBoot', { owner, generation: paused.generation + 1 }, UNAUDITED, tx);
    });
  }
}
