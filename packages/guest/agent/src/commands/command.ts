import { Deadline, KeyedQueue, reportFailure } from '@cloche/node-support';
import type { AgentCommand, CommandResultEvent, StartCommand, TerminalSize } from '@cloche/protocol';
import { AgentError, NO_PROCESS_LEFT } from '../base/agent-error.ts';
import type { Gate, GatedTimer } from '../base/gate.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import { CapturedText } from './captured-text.ts';
import { CommandLog } from './command-log.ts';
import {
  type CommandEnd,
  type StartFailure,
  Supervisor,
  type SupervisorListener,
  type SupervisorOptions,
} from './supervisor.ts';
import type { Supervisors } from './supervisors.ts';

/** Time between SIGTERM and SIGKILL for a command that exceeds its timeout. */
const TERM_GRACE_MS = 1000;
/** Longest time that a write waits for room in standard input. */
const STDIN_PATIENCE_MS = 10_000;
/** Exit codes of commands that did not start, as shells set them; 255 if the supervisor was lost. */
const CAUSE_EXIT_CODE = { cwd: 126, missing: 127, exec: 126, processes: 126, lost: 255 };
/** Longest time that signals of the user take from the reserve, with the wait for the commands before them. */
const SIGNAL_MS = 4000;
/** Most characters of a program's name in an error message. */
const MAX_NAME_CHARACTERS = 256;

export interface CommandOptions {
  spec: SupervisorOptions;
  /** Options to start it from the reserve of processes; undefined if it may not be. */
  reserve: SupervisorOptions | undefined;
  logFolder: string;
  supervisors: Supervisors;
  gate: Gate;
}

/** A command, from its start until the last process that it started has ended. */
export class Command implements SupervisorListener {
  readonly id: string;
  readonly log: CommandLog;
  readonly #supervisors: Supervisors;
  readonly #start: StartCommand;
  /** Options to start the command from the reserve of processes, if it may be. */
  #reserve: SupervisorOptions | undefined;
  #supervisor: Supervisor;
  readonly #program: string;
  readonly #startedAt = performance.now();
  readonly #starting = Promise.withResolvers<void>();
  readonly #ending = Promise.withResolvers<void>();
  readonly #timer: GatedTimer | undefined;
  readonly #gate: Gate;
  #capture: Record<StandardStream, CapturedText> | undefined;
  #state: Omit<AgentCommand, 'id'> = { status: 'running' };
  readonly #sent = new Set<string>();
  #stopReason: 'killed' | 'timed_out' | undefined;
  #inputOpen: boolean;
  readonly #hasTerminal: boolean;
  readonly #writes = new KeyedQueue<'stdin'>();

  constructor(id: string, start: StartCommand, options: CommandOptions) {
    const { spec, reserve, logFolder, supervisors, gate } = options;
    this.id = id;
    this.#gate = gate;
    this.#start = start;
    this.#reserve = reserve;
    this.#supervisors = supervisors;
    this.log = new CommandLog(logFolder, start.logBytes);
    this.#inputOpen = spec.hasInput;
    this.#hasTerminal = spec.terminal !== undefined;
    this.#program = (start.argv[0] ?? '').slice(0, MAX_NAME_CHARACTERS);
    if (start.capture) {
      const { stdoutBytes, stderrBytes } = start.capture;
      this.#capture = {
        stdout: new CapturedText('stdout', stdoutBytes),
        stderr: new CapturedText('stderr', stderrBytes),
      };
    }
    // Prevents an unhandled rejection if no caller waits for the start.
    this.#starting.promise.catch(() => undefined);
    this.#supervisor = supervisors.reserve.isNeeded
      ? (this.#superviseFromReserve() ?? this.#supervise(spec))
      : this.#supervise(spec);
    const { timeoutMs } = start;
    this.#timer =
      timeoutMs === undefined ? undefined : gate.startTimer(() => this.#timeOut().catch(reportFailure), timeoutMs);
  }

  get description(): AgentCommand {
    return { id: this.id, ...this.#state };
  }

  get isRunning(): boolean {
    return this.#state.status === 'running';
  }

  /** Whether the command runs, and a request waits for its output. */
  get isWaited(): boolean {
    return this.isRunning && this.#start.capture !== undefined;
  }

  /** Captured bytes of both streams together. */
  get capturedBytes(): number {
    return this.#capture ? this.#capture.stdout.bytes + this.#capture.stderr.bytes : 0;
  }

  /** Resolves when the command runs or could not be started. Throws `invalid_cwd`. */
  hasStarted(): Promise<void> {
    return this.#starting.promise;
  }

  hasEnded(): Promise<void> {
    return this.#ending.promise;
  }

  /**
   * Writes to standard input. Resolves when there is room for more. Throws `conflict` if standard input is closed, and
   * `timeout` if the command does not read; the bytes are still delivered when it does.
   */
  write(bytes: Buffer, close: boolean): Promise<void> {
    return this.#writes.run('stdin', () => this.#write(bytes, close));
  }

  /** Throws `conflict` if the command has no terminal or has ended. */
  resize({ columns, rows }: TerminalSize): void {
    if (!this.#hasTerminal || !this.isRunning) throw new AgentError('conflict', 'The command has no terminal.');
    this.#supervisor.resize(columns, rows);
  }

  /** Kills the command and all its descendants, also when it has exited and left descendants running. */
  async kill(): Promise<void> {
    await this.#stop('killed');
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning) return;
    this.#sent.add(signal);
    this.#supervisor.signal(signal);
  }

  /**
   * Yields the output up to the limits of `capture`, then `done`. Yields no output if none was captured. If the output
   * was released, a line and `truncated` say how many bytes are missing.
   */
  *result(): Generator<CommandResultEvent, void> {
    if (this.#capture) {
      for (const stream of ['stdout', 'stderr'] as const) {
        for (const data of this.#capture[stream].pieces) yield { type: stream, data };
      }
    }
    const cut = { stdout: this.#capture?.stdout.cutBytes ?? 0, stderr: this.#capture?.stderr.cutBytes ?? 0 };
    const truncated = { ...(cut.stdout > 0 && { stdout: cut.stdout }), ...(cut.stderr > 0 && { stderr: cut.stderr }) };
    const isCut = Object.keys(truncated).length > 0;
    yield { type: 'done', command: this.description, ...(isCut && { truncated }) };
  }

  /** Drops the captured output. From then on `result` only tells how many bytes were printed. */
  releaseCapture(): void {
    this.#capture?.stdout.release();
    this.#capture?.stderr.release();
  }

  started(): void {
    this.#starting.resolve();
  }

  printed(stream: StandardStream, bytes: Buffer): void {
    this.#capture?.[stream].push(bytes);
    this.log.push(stream, bytes);
  }

  ended(end: CommandEnd): void {
    const wasSent = 'signal' in end && (this.#sent.has(end.signal) || this.#stopReason === 'killed');
    // `exited` unless it timed out or died of a signal that a client sent.
    const status = this.#stopReason === 'timed_out' ? 'timed_out' : wasSent ? 'killed' : 'exited';
    this.#finish({ status, ...end });
  }

  failed(cause: StartFailure | 'lost', reason: string): void {
    // A sandbox can reach its limit after the look at it.
    const again = cause === 'processes' && this.isRunning ? this.#superviseFromReserve() : undefined;
    if (again !== undefined) {
      this.#supervisor = again;
      return;
    }
    if (cause === 'cwd' && this.isRunning) this.#starting.reject(new AgentError('invalid_cwd', `cwd: ${reason}`));
    const text = cause === 'processes' ? NO_PROCESS_LEFT : reason;
    const failureReason = cause === 'lost' || cause === 'cwd' ? text : `${this.#program}: ${text}`;
    // Shells print this to stderr too, so a client that shows the output shows the reason.
    if (this.isRunning && cause !== 'cwd') this.printed('stderr', Buffer.from(`${failureReason}\n`));
    this.#finish({
      status: 'failed',
      exitCode: CAUSE_EXIT_CODE[cause],
      failureReason: failureReason.slice(0, 1024),
    });
  }

  /** Returns undefined if the command may not use the reserve, or has done so. */
  #superviseFromReserve(): Supervisor | undefined {
    const spec = this.#reserve;
    this.#reserve = undefined;
    if (spec === undefined || !this.#supervisors.reserve.isOpen) return undefined;
    const supervisor = this.#supervise(spec, true);
    // SECURITY: the user's programs can stop a process of the user, which would then keep the reserve.
    if (spec.uid !== 0) setTimeout(() => supervisor.kill().catch(reportFailure), SIGNAL_MS).unref();
    return supervisor;
  }

  #supervise(spec: SupervisorOptions, reserved = false): Supervisor {
    const supervisor = new Supervisor(this.#supervisors, spec, this, reserved);
    const { stdin, stdinOpen } = this.#start;
    if (stdin !== undefined) supervisor.write(Buffer.from(stdin));
    if (spec.hasInput && !stdinOpen) {
      this.#inputOpen = false;
      supervisor.endInput();
    }
    return supervisor;
  }

  #finish(state: Omit<AgentCommand, 'id' | 'durationMs'>): void {
    if (!this.isRunning) return;
    this.#gate.clearTimer(this.#timer);
    this.#state = { ...state, durationMs: Math.round(performance.now() - this.#startedAt) };
    this.#inputOpen = false;
    this.#capture?.stdout.end();
    this.#capture?.stderr.end();
    this.log.end();
    this.#starting.resolve();
    this.#ending.resolve();
  }

  async #timeOut(): Promise<void> {
    this.#stopReason ??= 'timed_out';
    this.#supervisor.signal('SIGTERM');
    using grace = new Deadline(TERM_GRACE_MS);
    await grace.race(this.#ending.promise).catch(() => undefined);
    await this.#stop('timed_out');
  }

  async #stop(reason: 'killed' | 'timed_out'): Promise<void> {
    this.#stopReason ??= reason;
    await this.#supervisor.kill();
    // Some processes cannot be killed (uninterruptible sleep). The command counts as ended, so that waiting requests
    // return.
    this.#finish({ status: this.#stopReason, exitCode: 137, signal: 'SIGKILL' });
  }

  async #write(bytes: Buffer, close: boolean): Promise<void> {
    if (!this.#inputOpen) throw new AgentError('conflict', 'Standard input is closed.');
    const hasRoom = bytes.length === 0 || this.#supervisor.write(bytes);
    if (close) this.#endInput();
    if (hasRoom) return;
    const patience = AbortSignal.timeout(STDIN_PATIENCE_MS);
    await this.#supervisor.drained(patience);
    if (patience.aborted) throw new AgentError('timeout', 'The command does not read its standard input.');
  }

  #endInput(): void {
    this.#inputOpen = false;
    this.#supervisor.endInput();
  }
}
