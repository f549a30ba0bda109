/** Pauses in the record of a sandbox: its fields, its moves, and what clients see of them. */
import type { Sandbox } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';
import { factsOf, type PauseState, type RecordState } from '../sandbox-status/status-facts.ts';
import type { SandboxRecord } from './sandbox.ts';

/** The fields of a sandbox that was never paused. */
export const NEVER_PAUSED = {
  pauseState: undefined,
  pauseEpoch: 0,
  pauseOwner: undefined,
  pauseToken: undefined,
  pausedAt: undefined,
  pausedBy: undefined,
  resumedAt: undefined,
  resumedBy: undefined,
  sessionStartedAt: undefined,
  pausedMemory: 'keep',
  lostReason: undefined,
  resumedLostReason: undefined,
  diskGeneration: undefined,
} as const;

interface Move {
  readonly from: readonly RecordState[];
  /** Undefined for a move that keeps the state. */
  readonly to?: PauseState | 'ready';
  readonly event?: 'sandbox.paused' | 'sandbox.resumed' | 'sandbox.memory_lost' | 'sandbox.retention_ending';
}

/**
 * All moves into and out of a pause, which keep the status `ready`. Each is a compare-and-set on the id, generation,
 * status and `pauseEpoch` that were read.
 */
export const MOVES = {
  /** A server is about to freeze the instance. */
  beginPause: { from: ['ready'], to: 'pausing' },
  /** The instance is frozen. */
  finishPause: { from: ['pausing'], to: 'paused', event: 'sandbox.paused' },
  /** The pause was given up. */
  cancelPause: { from: ['pausing'], to: 'ready' },
  /** A server is about to thaw the instance. */
  beginWake: { from: ['paused'], to: 'waking' },
  /** The agent answers again. */
  finishWake: { from: ['waking'], to: 'ready', event: 'sandbox.resumed' },
  /** The wake failed. */
  cancelWake: { from: ['waking'], to: 'paused' },
  /** A server is about to end the instance and to keep its disk. */
  beginPark: { from: ['ready'], to: 'parking' },
  /** The instance has ended; its disk is kept. */
  finishPark: { from: ['parking'], to: 'parked', event: 'sandbox.paused' },
  /** The instance goes on. */
  cancelPark: { from: ['parking'], to: 'ready' },
  /** A server is about to end a frozen instance and to keep its disk. */
  beginDrop: { from: ['paused'], to: 'dropping' },
  finishDrop: { from: ['dropping'], to: 'parked', event: 'sandbox.memory_lost' },
  /** The instance is still frozen. */
  cancelDrop: { from: ['dropping'], to: 'paused' },
  /** A server is about to launch the next generation with the disk. */
  beginBoot: { from: ['parked'], to: 'booting' },
  /** Its agent answers. */
  finishBoot: { from: ['booting'], to: 'ready', event: 'sandbox.resumed' },
  /** The launch failed. */
  cancelBoot: { from: ['booting'], to: 'parked' },
  /** The instance is lost; the disk is kept. */
  loseInstance: { from: ['ready', 'pausing'], to: 'parked', event: 'sandbox.paused' },
  loseMemory: { from: ['paused', 'waking'], to: 'parked', event: 'sandbox.memory_lost' },
  /** Another server finishes what the owner has left. */
  takeOver: { from: ['pausing', 'waking', 'parking', 'dropping', 'booting'] },
  /** The end of the retention is set anew. */
  setRetention: { from: ['paused', 'parked'] },
  /** The end of the retention is near. */
  announceRetention: { from: ['paused', 'parked'], event: 'sandbox.retention_ending' },
} as const satisfies Record<string, Move>;
export type MoveName = keyof typeof MOVES;

export function moveOf(name: MoveName): Move {
  return MOVES[name];
}

/** Returns what clients see of the pause. */
export function pauseOf(record: SandboxRecord): Pick<Sandbox, 'paused' | 'resumed' | 'sessionStartedAt'> {
  const { pausedAt, pausedBy = 'request', resumedAt, resumedBy, sessionStartedAt, createdAt } = record;
  const { isShownPaused, hasLostMemory } = factsOf(record);
  const kept = hasLostMemory
    ? ({ memory: 'lost', place: 'disk', lostReason: record.lostReason ?? 'asked' } as const)
    : ({ memory: 'kept', place: 'memory' } as const);
  const { resumedLostReason: lostReason } = record;
  const woken = lostReason ? ({ memory: 'lost', lostReason } as const) : ({ memory: 'kept' } as const);
  return {
    ...(isShownPaused && pausedAt !== undefined ? { paused: { at: timestamp(pausedAt), by: pausedBy, ...kept } } : {}),
    ...(resumedAt === undefined
      ? {}
      : { resumed: { at: timestamp(resumedAt), by: resumedBy ?? 'operation', ...woken } }),
    sessionStartedAt: timestamp(sessionStartedAt ?? createdAt),
  };
}
