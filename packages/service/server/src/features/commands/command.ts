import type { Command, CommandId, CommandStatus, CommandUser, SandboxId } from '@cloche/contract';
import type { AgentCommand } from '@cloche/protocol';
import { timestamp } from '../../platform/base/clock.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';

/** Times are milliseconds since the epoch. */
export interface CommandRecord {
  readonly id: CommandId;
  readonly sandboxId: SandboxId;
  readonly generation: number;
  /** The command as given by the client. */
  readonly command: string | readonly string[];
  readonly cwd: string;
  readonly user: CommandUser;
  readonly background: boolean;
  /** The last known status. */
  readonly status: CommandStatus;
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly failureReason: string | undefined;
  readonly startedAt: number;
  readonly finishedAt: number | undefined;
  readonly durationMs: number | undefined;
  readonly idempotencyRecordId: string | undefined;
  /** Id of the server that starts the command or waits for its end; undefined if that server has released it. */
  readonly watchedBy: string | undefined;
}

/** The fields that describe how a command ended. */
export type CommandEnding = Pick<
  CommandRecord,
  'status' | 'exitCode' | 'signal' | 'failureReason' | 'finishedAt' | 'durationMs'
>;

const NOT_ENDED = {
  exitCode: undefined,
  signal: undefined,
  failureReason: undefined,
  finishedAt: undefined,
  durationMs: undefined,
} as const;

/** Returns the record of a command that is about to be started. */
export function runningCommand(command: Omit<CommandRecord, 'status' | keyof typeof NOT_ENDED>): CommandRecord {
  return { ...command, status: 'running', ...NOT_ENDED };
}

/** Why a command has ended whose sandbox was paused with its files alone. */
export const PAUSED_WITHOUT_MEMORY = 'The sandbox was paused, and its memory was dropped.';
export const KILLED = { status: 'killed', exitCode: 137, signal: 'SIGKILL', failureReason: undefined } as const;

/**
 * Returns how the command ended according to the agent; undefined while it runs. Times are bounded by the server's
 * clock, because the sandbox's clock cannot be trusted.
 */
export function endingOf(record: CommandRecord, agent: AgentCommand, now: number): CommandEnding | undefined {
  if (agent.status === 'running') return undefined;
  const durationMs = Math.min(agent.durationMs ?? 0, Math.max(0, now - record.startedAt));
  return {
    status: agent.status,
    exitCode: agent.exitCode,
    signal: agent.signal,
    failureReason: agent.failureReason,
    durationMs,
    finishedAt: record.startedAt + durationMs,
  };
}

export function lostEnding(record: CommandRecord, failureReason: string, now: number): CommandEnding {
  const durationMs = Math.max(0, now - record.startedAt);
  return { status: 'failed', exitCode: undefined, signal: undefined, failureReason, durationMs, finishedAt: now };
}

export function killedEnding(record: CommandRecord, at: number): CommandEnding {
  return { ...KILLED, durationMs: Math.max(0, at - record.startedAt), finishedAt: at };
}

/** Returns the record as clients see it: in a sandbox that has ended, a running command counts as killed. */
export function asSeenIn(sandbox: SandboxRecord, record: CommandRecord): CommandRecord {
  if (record.status !== 'running' || !factsOf(sandbox).isOver) return record;
  return { ...record, ...killedEnding(record, sandbox.destroyedAt ?? record.startedAt) };
}

/** Output of a command, as far as the server has it. */
export type CommandOutput = Pick<Command, 'stdout' | 'stderr' | 'truncated'>;

export function toCommand(record: CommandRecord, output: CommandOutput = {}): Command {
  return {
    id: record.id,
    sandboxId: record.sandboxId,
    command: typeof record.command === 'string' ? record.command : [...record.command],
    cwd: record.cwd,
    user: record.user,
    background: record.background,
    status: record.status,
    ...(record.exitCode === undefined ? {} : { exitCode: record.exitCode }),
    ...(record.signal === undefined ? {} : { signal: record.signal }),
    ...(record.failureReason === undefined ? {} : { failureReason: record.failureReason }),
    ...output,
    startedAt: timestamp(record.startedAt),
    ...(record.finishedAt === undefined ? {} : { finishedAt: timestamp(record.finishedAt) }),
    ...(record.durationMs === undefined ? {} : { durationMs: record.durationMs }),
  };
}
