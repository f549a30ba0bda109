import type { Duplex } from 'node:stream';
import type { AgentCommand, AgentCommandEvent, AgentLogPage, StartCommand, TerminalSize } from '@cloche/protocol';
import type { CutBytes } from './cut-bytes.ts';
import type { ResultMemory } from './result-memory.ts';

export interface NewTerminal {
  readonly columns: number;
  readonly rows: number;
  readonly user: 'user' | 'root';
  /** Milliseconds that the shell lives without a client at its terminal. */
  readonly idleMs: number;
  /** Name of the sandbox in the prompt of its shell. */
  readonly place: string;
}

/** An ended command with the beginning of its output. */
export interface AgentCommandResult {
  readonly command: AgentCommand;
  readonly stdout: string;
  readonly stderr: string;
  readonly truncated: CutBytes | undefined;
}

/**
 * The commands of one instance. Every method throws `AgentError`, with `not_found` for a command that the agent does
 * not know or has forgotten. Aborting a signal does not affect the command.
 */
export interface AgentCommands {
  /**
   * Starts a command. Idempotent by id. Resolves when the command runs or could not be started. Throws `invalid_cwd`,
   * `busy`.
   */
  start(id: string, request: StartCommand, signal: AbortSignal): Promise<AgentCommand>;
  get(id: string, signal: AbortSignal): Promise<AgentCommand>;
  /** Resolves when the command has ended. */
  end(id: string, signal: AbortSignal): Promise<AgentCommand>;
  /**
   * Returns a command that the agent has. Otherwise throws `not_found`, and the agent never starts the command: a
   * server that was stopped for a while could still request the start later.
   */
  prevent(id: string, signal: AbortSignal): Promise<AgentCommand>;
  /**
   * Resolves when the command has ended. The output is empty if `start` did not request output, or if an earlier call
   * has returned it. Requests memory from `resultMemory` before it reads output.
   */
  result(id: string, signal: AbortSignal, resultMemory?: ResultMemory): Promise<AgentCommandResult>;
  readLog(id: string, afterSeq: number, limit: number, signal: AbortSignal): Promise<AgentLogPage>;
  /**
   * Yields events of the command and ends with `exit`. A slow reader misses dropped output and receives an event that
   * says so.
   */
  follow(id: string, afterSeq: number, signal: AbortSignal): AsyncIterable<AgentCommandEvent>;
  /**
   * Writes to the standard input and resolves when there is room for more. Throws `conflict` when the input is closed,
   * `timeout` when it stays full.
   */
  writeStdin(id: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<void>;
  /**
   * Opens a connection to a terminal, in the frames of `agent-protocol/terminals.ts`. Creates the terminal if
   * `terminal` is given, and joins an existing one otherwise. The caller destroys the connection. `signal` bounds only
   * the opening. Throws `not_found`, `busy`.
   */
  openTerminal(id: string, terminal: NewTerminal | undefined, signal: AbortSignal): Promise<Duplex>;
  /** Resizes the terminal of a command. Throws `conflict` if it has none or has ended. */
  resize(id: string, size: TerminalSize, signal: AbortSignal): Promise<void>;
  /** Sends the signal to the command and all its descendants. After SIGKILL, resolves once the command has ended. */
  kill(id: string, name: string, signal: AbortSignal): Promise<AgentCommand>;
}
