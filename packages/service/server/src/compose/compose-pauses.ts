import type { SandboxId } from '@cloche/contract';
import type { RuntimeDriver } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import { Freezer } from '../features/pauses/freezer.ts';
import { MovesUnderWay } from '../features/pauses/moves-under-way.ts';
import { PauseMoves, type PauseMovesDeps } from '../features/pauses/pause-moves.ts';
import { PauseSandbox, type PauseSandboxDeps } from '../features/pauses/pause-sandbox.ts';
import { ResumeSandbox, type ResumeSandboxDeps } from '../features/pauses/resume-sandbox.ts';
import { WakeSandbox } from '../features/pauses/wake-sandbox.ts';
import type { Changes } from '../platform/base/changes.ts';

type Made = 'freezer' | 'underWay' | 'moves' | 'wakeSandbox';

export type PausesDeps = Omit<PauseMovesDeps & PauseSandboxDeps & ResumeSandboxDeps, Made> & {
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
  /** Resolves when the pauses and wakes under way are over. */
  stop(): Promise<void>;
}

export function composePauses(deps: PausesDeps): Pauses {
  const freezer = new Freezer(deps.driver, deps.connections, deps.clock);
  const underWay = new MovesUnderWay(deps.servers);
  const moves = new PauseMoves({ ...deps, freezer, underWay });
  const wakeSandbox = new WakeSandbox({ ...deps, moves });
  return {
    moves,
    wakeSandbox,
    pauseSandbox: new PauseSandbox({ ...deps, freezer, moves, wakeSandbox }),
    resumeSandbox: new ResumeSandbox({ ...deps, wakeSandbox }),
    stop: () => underWay.settled(),
  };
}
