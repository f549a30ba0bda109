import type { SandboxId } from '@cloche/contract';
import type { RuntimeDriver } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Registry } from 'prom-client';
import { AutomaticPauses } from '../features/pauses/automatic-pauses.ts';
import { BeginMove, type BeginMoveDeps } from '../features/pauses/begin-move.ts';
import { DiskMoves, type DiskMovesDeps } from '../features/pauses/disk-moves.ts';
import { DiskSweep } from '../features/pauses/disk-sweep.ts';
import { FreezeMoves, type FreezeMovesDeps } from '../features/pauses/freeze-moves.ts';
import { Freezer } from '../features/pauses/freezer.ts';
import { KeptDisks } from '../features/pauses/kept-disks.ts';
import { MakeRoom } from '../features/pauses/make-room.ts';
import { MovesUnderWay } from '../features/pauses/moves-under-way.ts';
import { PauseMetrics } from '../features/pauses/pause-metrics.ts';
import { PauseMoves, type PauseMovesDeps } from '../features/pauses/pause-moves.ts';
import { PauseSandbox, type PauseSandboxDeps } from '../features/pauses/pause-sandbox.ts';
import { PauseSupport } from '../features/pauses/pause-support.ts';
import { ResumeSandbox, type ResumeSandboxDeps } from '../features/pauses/resume-sandbox.ts';
import { RetentionNotices } from '../features/pauses/retention.ts';
import { WakeForRequests } from '../features/pauses/wake-for-requests.ts';
import { WakeSandbox } from '../features/pauses/wake-sandbox.ts';
import type { SandboxRecord } from '../features/sandbox-records/sandbox.ts';
import type { DestroySandbox } from '../features/sandboxes/lifecycle/destroy-sandbox.ts';
import type { Changes } from '../platform/base/changes.ts';
import { UNAUDITED } from '../platform/call/call.ts';

type Made =
  | 'beginMove'
  | 'metrics'
  | 'freezer'
  | 'disks'
  | 'freezeMoves'
  | 'diskMoves'
  | 'makeRoom'
  | 'underWay'
  | 'moves'
  | 'wakeSandbox'
  | 'support'
  | 'destroyLost';

export type PausesDeps = Omit<
  BeginMoveDeps & PauseMovesDeps & FreezeMovesDeps & DiskMovesDeps & PauseSandboxDeps & ResumeSandboxDeps,
  Made
> & {
  readonly driver: RuntimeDriver;
  readonly connections: AgentConnections;
  readonly destroySandbox: Pick<DestroySandbox, 'destroy'>;
  readonly changes: Changes<SandboxId>;
  readonly registry: Registry;
};

/** The composed parts of pauses. */
export interface Pauses {
  readonly moves: PauseMoves;
  readonly freezeMoves: FreezeMoves;
  readonly diskMoves: DiskMoves;
  readonly disks: KeptDisks;
  readonly makeRoom: MakeRoom;
  readonly diskSweep: DiskSweep;
  readonly wakeSandbox: WakeSandbox;
  readonly pauseSandbox: PauseSandbox;
  readonly resumeSandbox: ResumeSandbox;
  readonly support: PauseSupport;
  readonly automaticPauses: AutomaticPauses;
  readonly wakeForRequests: WakeForRequests;
  readonly retentionNotices: RetentionNotices;
  /** Resolves when the pauses and wakes under way are over. */
  stop(): Promise<void>;
}

export function composePauses(deps: PausesDeps): Pauses {
  const freezer = new Freezer(deps.driver, deps.connections, deps.clock);
  const underWay = new MovesUnderWay(deps.servers);
  const disks = new KeptDisks(deps.driver, deps.connections, deps.log);
  const support = new PauseSupport(freezer, disks, deps.servers);
  const metrics = new PauseMetrics(deps.registry);
  const destroyLost = ({ id, pauseEpoch }: SandboxRecord) =>
    deps.destroySandbox.destroy(UNAUDITED, id, 'platform_cleanup', (seen) => seen.pauseEpoch === pauseEpoch);
  const makeRoom = new MakeRoom({ ...deps, support, underWay, moves: { drop: (...drop) => moves.drop(...drop) } });
  const shared = { ...deps, disks, freezer, makeRoom };
  const diskMoves = new DiskMoves({ ...shared, destroyLost });
  const freezeMoves = new FreezeMoves({ ...shared, diskMoves });
  const moves = new PauseMoves({ ...deps, beginMove: new BeginMove(deps), freezeMoves, diskMoves, underWay, metrics });
  const wakeSandbox = new WakeSandbox({ ...deps, moves });
  return {
    moves,
    freezeMoves,
    diskMoves,
    makeRoom,
    disks,
    diskSweep: new DiskSweep({ ...deps, disks, destroyLost }),
    wakeSandbox,
    support,
    retentionNotices: new RetentionNotices(deps),
    automaticPauses: new AutomaticPauses({ ...deps, moves }),
    wakeForRequests: new WakeForRequests({ ...deps, wakeSandbox }),
    pauseSandbox: new PauseSandbox({ ...deps, support, moves, wakeSandbox }),
    resumeSandbox: new ResumeSandbox({ ...deps, wakeSandbox, moves, support }),
    async stop() {
      await underWay.settled();
      await disks.settled();
    },
  };
}
