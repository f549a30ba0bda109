import type { Duplex } from 'node:stream';
import type { AgentCommand, AgentCommandEvent, AgentLogPage, StartCommand } from '@cloche/protocol';
import type { ResultRoom } from '../base/result-rooms.ts';

export interface NewTerminal {
  readonly columns: number;
  readonly rows: number;
  readonly user: 'user' | 'root';
  /** How long its shell lives without anybody who watches. */
  readonly idleMs: number;
}

/** A command that has ended, with the head of what it printed. */
export interface AgentCommandResult {
  readonly command: AgentCommand;
  readonly stdout: string;
  readonly stderr: string;
  readonly truncated: { readonly stdout?: number; readonly stderr?: number } | undefined;
}

/**
 * The commands of one instance. All of it throws `AgentFault`: `not_found` for a command that the agent does not know,
 * or not any more. Aborting leaves the command alone.
 */
export interface AgentCommands {
  /** Idempotent by id. Resolves when it runs or could not be started. Throws `invalid_cwd`, `busy`. */
  start(id: string, request: StartCommand, signal: AbortSignal): Promise<AgentCommand>;
  get(id: string, signal: AbortSignal): Promise<AgentCommand>;
  /** Waits for its end. */
  end(id: string, signal: AbortSignal): Promise<AgentCommand>;
  /**
   * Waits for its end. Without output where `start` asked for none, or when it was handed out before. What is read of it
   * has asked `room` first.
   */
  result(id: string, signal: AbortSignal, room?: ResultRoom): Promise<AgentCommandResult>;
  readLog(id: string, afterSeq: number, limit: number, signal: AbortSignal): Promise<AgentLogPage>;
  /** Ends with `exit`. A slow reader misses what is dropped meanwhile, and is told. */
  follow(id: string, afterSeq: number, signal: AbortSignal): AsyncIterable<AgentCommandEvent>;
  /** Resolves when there is room for more. Throws `conflict` when the input is closed, `timeout` when it stays full. */
  writeStdin(id: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<void>;
  /**
   * A connection to a terminal, in frames as `agent-protocol/terminals.ts` has them: a new one, or without `terminal` one
   * that is there. Whoever gets it destroys it. `signal` bounds the opening alone. Throws `not_found`, `busy`.
   */
  openTerminal(id: string, terminal: NewTerminal | undefined, signal: AbortSignal): Promise<Duplex>;
  /** Of all that descends from it. After SIGKILL it has ended. */
  kill(id: string, name: string, signal: AbortSignal): Promise<AgentCommand>;
}
