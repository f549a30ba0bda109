/** A table with the properties of each state of a sandbox. Other code reads this table and compares no state itself. */
import { SANDBOX_STATUS_FACTS, type SandboxStatus } from '@cloche/contract';
import { type RawBuilder, sql } from 'kysely';

/** Statuses stored in the database. `running` and `idle` are `ready` combined with live activity. */
export type RecordStatus = Exclude<SandboxStatus, 'running' | 'idle'>;

const PAUSE_STATES = ['pausing', 'paused', 'waking', 'parking', 'dropping', 'parked', 'booting'] as const;
/**
 * Stored beside the status `ready` while the sandbox is paused, or on its way into or out of a pause. `paused`: its memory
 * is kept, from `pausing` until `waking`. `parked`: its files alone are, from `parking`, or `dropping` of the memory of a
 * paused one, until `booting`.
 */
export type PauseState = (typeof PAUSE_STATES)[number];

export type RecordState = RecordStatus | PauseState;

export interface StatusFacts {
  /** Whether the sandbox is being launched. */
  readonly isPending: boolean;
  /** Whether its agent accepts requests now. */
  readonly isReady: boolean;
  /** Whether its agent accepts requests only after a wake. Its TTL does not run. */
  readonly needsWake: boolean;
  /** Whether it is on its way into or out of a pause. */
  readonly isMoving: boolean;
  /** Whether it is on its way out of a pause. */
  readonly isWaking: boolean;
  /** Whether clients see it as paused. */
  readonly isShownPaused: boolean;
  /** Whether its memory is lost, so that a wake boots it from its files. */
  readonly hasLostMemory: boolean;
  /** Whether its instance was launched, and nothing has begun to end it. */
  readonly isLaunched: boolean;
  /** Whether it accepts runs, commands and files, now or once it is ready. It ends at `expiresAt`. */
  readonly acceptsWork: boolean;
  /** Whether it has, or may have, an instance on a host that belongs to it. */
  readonly holdsInstance: boolean;
  /** Whether it keeps its project and its template version. */
  readonly keepsProject: boolean;
  /** Whether it counts against the limits of live sandboxes. */
  readonly countsLive: boolean;
  /** Whether it counts against the limits of paused sandboxes. */
  readonly countsPaused: boolean;
  /** Whether it counts against the limits of their memory. */
  readonly countsPausedMemory: boolean;
  /** Whether the usage of its resources is metered. */
  readonly isMetered: boolean;
  /** Whether only its disk is metered. */
  readonly metersOnlyDisk: boolean;
  /** Whether it accepts no new work from now on. */
  readonly isOver: boolean;
  /** Whether it has ended and only its record is left. */
  readonly isEnded: boolean;
  /** The action of the reaper when the sandbox's idle timeout is over. */
  readonly onIdle: 'destroy' | 'nothing';
  /** Why a sandbox that accepts work ends at `expiresAt`. */
  readonly onExpiry: 'ttl_expired' | 'idle_expired';
  /**
   * Action at `expiresAt` for a sandbox whose policy pauses it then. `pauses`: a server pauses it. `waits`: a server pauses
   * it once it is ready. `settles`: its pause is under way, or a server has left it. `ends`: as any other.
   */
  readonly whenPausedAtExpiry: 'pauses' | 'waits' | 'settles' | 'ends';
  /** Code of the error for an operation in it. */
  readonly refusal: 'sandbox_destroyed' | 'sandbox_failed' | undefined;
}

const NOT_PAUSED = {
  needsWake: false,
  isMoving: false,
  isWaking: false,
  isShownPaused: false,
  hasLostMemory: false,
  countsPaused: false,
  countsPausedMemory: false,
  metersOnlyDisk: false,
} as const;

const LAUNCHING = {
  ...NOT_PAUSED,
  isPending: true,
  isLaunched: false,
  acceptsWork: true,
  holdsInstance: true,
  keepsProject: true,
  countsLive: true,
  isMetered: false,
  onIdle: 'nothing',
  onExpiry: 'ttl_expired',
  whenPausedAtExpiry: 'waits',
  refusal: undefined,
} as const;

const READY = {
  ...NOT_PAUSED,
  ...SANDBOX_STATUS_FACTS.ready,
  isPending: false,
  isLaunched: true,
  acceptsWork: true,
  holdsInstance: true,
  keepsProject: true,
  countsLive: true,
  isMetered: true,
  onIdle: 'destroy',
  onExpiry: 'ttl_expired',
  whenPausedAtExpiry: 'pauses',
  refusal: undefined,
} as const;

/** A sandbox that is paused, or on its way into or out of a pause. */
const BETWEEN = {
  ...READY,
  isReady: false,
  needsWake: true,
  isMoving: true,
  onIdle: 'nothing',
  onExpiry: 'idle_expired',
  whenPausedAtExpiry: 'ends',
} as const;

const COUNTS_PAUSED = { countsPaused: true, countsPausedMemory: true } as const;

const PAUSED = { ...BETWEEN, isShownPaused: true, countsLive: false, metersOnlyDisk: true } as const;

const ENDED = {
  ...NOT_PAUSED,
  isPending: false,
  isLaunched: false,
  acceptsWork: false,
  holdsInstance: false,
  keepsProject: false,
  countsLive: false,
  isMetered: false,
  onIdle: 'nothing',
  onExpiry: 'ttl_expired',
  whenPausedAtExpiry: 'ends',
} as const;

export const STATUS_FACTS: Readonly<Record<RecordState, StatusFacts>> = {
  creating: { ...SANDBOX_STATUS_FACTS.creating, ...LAUNCHING },
  starting: { ...SANDBOX_STATUS_FACTS.starting, ...LAUNCHING },
  ready: READY,
  pausing: { ...BETWEEN, ...COUNTS_PAUSED, onExpiry: 'ttl_expired', whenPausedAtExpiry: 'settles' },
  paused: { ...PAUSED, ...COUNTS_PAUSED, isMoving: false },
  waking: { ...BETWEEN, isWaking: true, isShownPaused: true },
  parking: {
    ...{ ...BETWEEN, countsPaused: true, isLaunched: false },
    ...{ onExpiry: 'ttl_expired', whenPausedAtExpiry: 'settles' },
  },
  dropping: { ...PAUSED, ...COUNTS_PAUSED, isLaunched: false },
  parked: {
    ...PAUSED,
    isMoving: false,
    hasLostMemory: true,
    countsPaused: true,
    isLaunched: false,
    holdsInstance: false,
  },
  booting: { ...BETWEEN, isWaking: true, isShownPaused: true, hasLostMemory: true, isLaunched: false },
  expiring: {
    ...SANDBOX_STATUS_FACTS.expiring,
    ...NOT_PAUSED,
    isPending: false,
    isLaunched: false,
    acceptsWork: false,
    holdsInstance: true,
    keepsProject: true,
    countsLive: true,
    isMetered: true,
    onIdle: 'nothing',
    onExpiry: 'ttl_expired',
    whenPausedAtExpiry: 'ends',
    refusal: 'sandbox_destroyed',
  },
  destroyed: { ...SANDBOX_STATUS_FACTS.destroyed, ...ENDED, refusal: 'sandbox_destroyed' },
  failed: { ...SANDBOX_STATUS_FACTS.failed, ...ENDED, refusal: 'sandbox_failed' },
};

/** The facts that are true or false. */
export type Fact = { [Name in keyof StatusFacts]: StatusFacts[Name] extends boolean ? Name : never }[keyof StatusFacts];

/** The parts of a record that decide its state. */
export interface Stateful {
  readonly status: RecordStatus;
  /** Decides nothing unless the status is `ready`. */
  readonly pauseState?: PauseState | undefined;
}

export function stateOf({ status, pauseState }: Stateful): RecordState {
  return status === 'ready' ? (pauseState ?? status) : status;
}

export function factsOf(record: Stateful): StatusFacts {
  return STATUS_FACTS[stateOf(record)];
}

/** Returns whether only the disk is metered, also of a sandbox whose end began while it was in this state of a pause. */
export function metersOnlyDisk(pauseState: PauseState | undefined): boolean {
  return pauseState !== undefined && STATUS_FACTS[pauseState].metersOnlyDisk;
}

/** Returns the states of which the fact is true. */
export function statesThat(fact: Fact): readonly RecordState[] {
  return (Object.keys(STATUS_FACTS) as RecordState[]).filter((state) => STATUS_FACTS[state][fact]);
}

function isPauseState(state: RecordState): boolean {
  return (PAUSE_STATES as readonly string[]).includes(state);
}

/** Returns the condition on rows of the table `sandboxes` that the fact is true. */
export function sandboxThat(fact: Fact): RawBuilder<boolean> {
  const states = statesThat(fact);
  const paused = states.filter(isPauseState);
  const statuses = states.filter((state) => !isPauseState(state));
  const isReadyToo = statuses.includes('ready');
  if (paused.length > 0 && !isReadyToo) statuses.push('ready');
  const isIn = sql<boolean>`sandboxes.status in (${sql.join(statuses)})`;
  if (!statuses.includes('ready') || (isReadyToo && paused.length === PAUSE_STATES.length)) return isIn;
  const allowed = sql.join([...paused, ...(isReadyToo ? [''] : [])]);
  return sql<boolean>`(${isIn} and (sandboxes.status <> 'ready' or coalesce(sandboxes.pause_state, '') in (${allowed})))`;
}

/** The condition of the partial index for lists, with the same text, because SQLite uses the index for no other. */
export const IS_NOT_ENDED = sql<boolean>`status not in (${sql.join(statesThat('isEnded').map((status) => sql.lit(status)))})`;

/** The condition of the partial unique index of names, with the same text. A sandbox that has failed keeps its reason. */
export const HOLDS_NAME = sql<boolean>`failure_reason is null and status <> 'destroyed'`;
