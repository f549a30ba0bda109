/** What each state of a sandbox means. Other code asks these facts and compares no status itself. */
import { SANDBOX_STATUS_FACTS, type SandboxStatus } from '@cloche/contract';
import { type RawBuilder, sql } from 'kysely';

/** Statuses stored in the database. `running` and `idle` are `ready` combined with live activity. */
export type RecordStatus = Exclude<SandboxStatus, 'running' | 'idle'>;

export interface StatusFacts {
  /** Whether the sandbox is still becoming ready. */
  readonly isPending: boolean;
  /** Whether its agent can be asked now. */
  readonly isReady: boolean;
  /** Whether an operation in it is accepted: now, or as soon as it is ready. Its TTL runs. */
  readonly acceptsWork: boolean;
  /** Whether it has, or may have, an instance on a host. */
  readonly holdsInstance: boolean;
  /** Whether it counts against the limits of live sandboxes and keeps its project and template version. */
  readonly countsLive: boolean;
  /** Whether its use of resources is counted. */
  readonly isMetered: boolean;
  /** Whether nothing can start in it any more. */
  readonly isOver: boolean;
  /** Whether it has ended and only its record is left. */
  readonly isEnded: boolean;
  /** What the reaper does when the sandbox's idle timeout is over. */
  readonly onIdle: 'destroy' | 'nothing';
  /** Code of the error for an operation in it. */
  readonly refusal: 'sandbox_destroyed' | 'sandbox_failed' | undefined;
}

const LAUNCHING = {
  isPending: true,
  acceptsWork: true,
  holdsInstance: true,
  countsLive: true,
  isMetered: false,
  onIdle: 'nothing',
  refusal: undefined,
} as const;

const ENDED = {
  isPending: false,
  acceptsWork: false,
  holdsInstance: false,
  countsLive: false,
  isMetered: false,
  onIdle: 'nothing',
} as const;

export const STATUS_FACTS: Readonly<Record<RecordStatus, StatusFacts>> = {
  creating: { ...SANDBOX_STATUS_FACTS.creating, ...LAUNCHING },
  starting: { ...SANDBOX_STATUS_FACTS.starting, ...LAUNCHING },
  ready: {
    ...SANDBOX_STATUS_FACTS.ready,
    isPending: false,
    acceptsWork: true,
    holdsInstance: true,
    countsLive: true,
    isMetered: true,
    onIdle: 'destroy',
    refusal: undefined,
  },
  expiring: {
    ...SANDBOX_STATUS_FACTS.expiring,
    isPending: false,
    acceptsWork: false,
    holdsInstance: true,
    countsLive: true,
    isMetered: true,
    onIdle: 'nothing',
    refusal: 'sandbox_destroyed',
  },
  destroyed: { ...SANDBOX_STATUS_FACTS.destroyed, ...ENDED, refusal: 'sandbox_destroyed' },
  failed: { ...SANDBOX_STATUS_FACTS.failed, ...ENDED, refusal: 'sandbox_failed' },
};

/** The facts that are true or false. */
export type Fact = { [Name in keyof StatusFacts]: StatusFacts[Name] extends boolean ? Name : never }[keyof StatusFacts];

export function factsOf({ status }: { readonly status: RecordStatus }): StatusFacts {
  return STATUS_FACTS[status];
}

/** Returns the statuses of which the fact is true. */
export function statusesThat(fact: Fact): readonly RecordStatus[] {
  return (Object.keys(STATUS_FACTS) as RecordStatus[]).filter((status) => STATUS_FACTS[status][fact]);
}

/** Returns the condition on rows of the table `sandboxes` that the fact is true. */
export function sandboxThat(fact: Fact): RawBuilder<boolean> {
  return sql<boolean>`sandboxes.status in (${sql.join(statusesThat(fact))})`;
}

/** The condition of the partial index for lists, letter by letter, because SQLite infers no other. */
export const IS_NOT_ENDED = sql<boolean>`status not in (${sql.join(statusesThat('isEnded').map((status) => sql.lit(status)))})`;
