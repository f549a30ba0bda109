import type { SandboxId } from '@cloche/contract';
import type { RuntimeDriver } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import { AutomaticPauses } from '../features/pauses/automatic-pauses.ts';
import { BeginMove, type BeginMoveDeps } from '../features/pauses/begin-move.ts';
import { Freezer } from '../features/pauses/freezer.ts';
import { MovesUnderWay } from '../features/pauses/moves-under-way.ts';
import { PauseMoves, type PauseMovesDeps } from '../features/pauses/pause-moves.ts';
import { PauseSandbox, type PauseSandboxDeps } from '../features/pauses/pause-sandbox.ts';
import { PauseSupport } from '../features/pauses/pause-support.ts';
import { ResumeSandbox, type ResumeSandboxDeps } from '../features/pauses/resume-sandbox.ts';
import { WakeSandbox } from '../features/pauses/wake-sandbox.ts';
import type { Changes } from '../platform/base/changes.ts';

type Made = 'beginMove' | 'freezer' | 'underWay' | 'moves' | 'wakeSandbox' | 'support';

export type PausesDeps = Omit<BeginMoveDeps & PauseMovesDeps & PauseSandboxDeps & ResumeSandboxDeps, Made> & {
  readonly driver: RuntimeDriver;
  readonly connections: AgentConnections;
  readonly changes: Changes<SandboxId>;
};

/** The composed parts of pauses. */
export interface Pauses {
  readonly moves: PauseMoves;
  readonly wakeSandbox: WakeSandbox;
  readonly pauseSandbox: PauseSandbox;
  readonly resumeSandbox: ResumeSandbox;
  readonly support: PauseSupport;
  readonly automaticPauses: AutomaticPauses;
  /** Resolves when the pauses and wakes under way are over. */
  stop(): Promise<void>;
}

export function composePauses(deps: PausesDeps): Pauses {
  const freezer = new Freezer(deps.driver, deps.connections, deps.clock);
  const underWay = new MovesUnderWay(deps.servers);
  const support = new PauseSupport(freezer, deps.servers);
  const moves = new PauseMoves({ ...deps, beginMove: new BeginMove(deps), freezer, underWay });
  const wakeSandbox = new WakeSandbox({ ...deps, moves });
  return {
    moves,
    wakeSandbox,
    support,
    automaticPauses: new AutomaticPauses({ ...deps, moves }),
    pauseSandbox: new PauseSandbox({ ...deps, support, moves, wakeSandbox }),
    resumeSandbox: new ResumeSandbox({ ...deps, wakeSandbox }),
    stop: () => underWay.settled(),
  };
}
