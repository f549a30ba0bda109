import { setTimeout as pause } from 'node:timers/promises';
import type { AgentCommand, CommandResultEvent, StartCommand } from '@cloche/protocol';
import { AgentError, NO_PROCESS_LEFT } from '../base/agent-error.ts';
import { BoundedText } from '../base/bounded-text.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import { CommandLog } from './command-log.ts';
import {
  type CommandEnd,
  type StartFailure,
  Supervisor,
  type SupervisorListener,
  type SupervisorSpec,
} from './supervisor.ts';
import type { Supervisors } from './supervisors.ts';

/** What a command may do about SIGTERM at the end of its time. */
const TERM_GRACE_MS = 1000;
/** How long standard input may be full before a write gives up. */
const STDIN_PATIENCE_MS = 10_000;
/** A line of the result holds so much and a little more. */
const PIECE_CHARACTERS = 64 * 1024;
/** As shells count. */
const CAUSE_EXIT_CODE = { cwd: 126, missing: 127, exec: 126, processes: 126, lost: 255 };
/** How much of a program's name is repeated in an error. */
const MAX_NAME_CHARACTERS = 256;

/** One command, from its start to the last process that it left running. */
export class Command implements SupervisorListener {
  readonly id: string;
  readonly log: CommandLog;
  readonly #supervisor: Supervisor;
  readonly #program: string;
  readonly #startedAt = performance.now();
  readonly #starting = Promise.withResolvers<void>();
  readonly #ending = Promise.withResolvers<void>();
  readonly #timer: NodeJS.Timeout | undefined;
  #capture: Record<StandardStream, CapturedText> | undefined;
  #state: Omit<AgentCommand, 'id'> = { status: 'running' };
  readonly #sent = new Set<string>();
  #stopReason: 'killed' | 'timed_out' | undefined;
  #inputOpen: boolean;
  #writing: Promise<void> = Promise.resolve();

  constructor(id: string, start: StartCommand, spec: SupervisorSpec, logFolder: string, supervisors: Supervisors) {
    this.id = id;
    this.log = new CommandLog(logFolder, start.logBytes);
    this.#inputOpen = spec.hasInput;
    this.#program = (start.argv[0] ?? '').slice(0, MAX_NAME_CHARACTERS);
    if (start.capture) {
      const { stdoutBytes, stderrBytes } = start.capture;
      this.#capture = {
        stdout: new CapturedText('stdout', stdoutBytes),
        stderr: new CapturedText('stderr', stderrBytes),
      };
    }
    // Nobody need wait for either.
    this.#starting.promise.catch(() => undefined);
    this.#supervisor = new Supervisor(supervisors, spec, this);
    if (start.stdin !== undefined) this.#supervisor.write(Buffer.from(start.stdin));
    if (spec.hasInput && !start.stdinOpen) this.#endInput();
    const { timeoutMs } = start;
    this.#timer = timeoutMs === undefined ? undefined : setTimeout(() => void this.#timeOut(), timeoutMs);
  }

  get description(): AgentCommand {
    return { id: this.id, ...this.#state };
  }

  get isRunning(): boolean {
    return this.#state.status === 'running';
  }

  /** Of the streams together. */
  get capturedBytes(): number {
    return this.#capture ? this.#capture.stdout.bytes + this.#capture.stderr.bytes : 0;
  }

  /** Resolves when it runs or could not be started. Throws `invalid_cwd`. */
  hasStarted(): Promise<void> {
    return this.#starting.promise;
  }

  hasEnded(): Promise<void> {
    return this.#ending.promise;
  }

  /**
   * Resolves when there is room for more. Throws `conflict` when its input is closed, `timeout` when it takes none for
   * long: then what was given is on its way all the same.
   */
  write(bytes: Buffer, close: boolean): Promise<void> {
    const written = this.#writing.then(() => this.#write(bytes, close));
    this.#writing = written.catch(() => undefined);
    return written;
  }

  /** Ends it with all that descends from it, also when it has ended itself and left something running. */
  async kill(): Promise<void> {
    await this.#stop('killed');
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning) return;
    this.#sent.add(signal);
    this.#supervisor.signal(signal);
  }

  /**
   * What it printed, up to the bounds of `capture`, then `done`. Without output where none was captured; where it was
   * released, a line and `truncated` say how much is missing.
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

  /** The result only tells how much was printed from now on. */
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
    // By itself, if not by the end of its time or by a signal that it was sent.
    const status = this.#stopReason === 'timed_out' ? 'timed_out' : wasSent ? 'killed' : 'exited';
    this.#finish({ status, ...end });
  }

  failed(cause: StartFailure | 'lost', reason: string): void {
    if (cause === 'cwd' && this.isRunning) this.#starting.reject(new AgentError('invalid_cwd', `cwd: ${reason}`));
    const text = cause === 'processes' ? NO_PROCESS_LEFT : reason;
    const failureReason = cause === 'lost' || cause === 'cwd' ? text : `${this.#program}: ${text}`;
    // As a shell does; a client that shows the output shows why.
    if (this.isRunning && cause !== 'cwd') this.printed('stderr', Buffer.from(`${failureReason}\n`));
    this.#finish({
      status: 'failed',
      exitCode: CAUSE_EXIT_CODE[cause],
      failureReason: failureReason.slice(0, 1024),
    });
  }

  #finish(state: Omit<AgentCommand, 'id' | 'durationMs'>): void {
    if (!this.isRunning) return;
    clearTimeout(this.#timer);
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
    await Promise.race([this.#ending.promise, pause(TERM_GRACE_MS)]);
    await this.#stop('timed_out');
  }

  async #stop(reason: 'killed' | 'timed_out'): Promise<void> {
    this.#stopReason ??= reason;
    await this.#supervisor.kill();
    // Nothing can be done about what does not die: it is over for whoever waits.
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

/** The head of one stream, kept until the result is asked for. */
class CapturedText {
  pieces: string[] = [];
  readonly #name: StandardStream;
  readonly #text: BoundedText;
  #printedBytes = 0;
  /** What `pieces` take, about. */
  bytes = 0;
  #isReleased = false;

  constructor(name: StandardStream, limitBytes: number) {
    this.#name = name;
    this.#text = new BoundedText(name, limitBytes);
  }

  get cutBytes(): number {
    return this.#isReleased ? this.#printedBytes : this.#text.cutBytes;
  }

  /** Only of a command that has ended. Idempotent. */
  release(): void {
    if (this.bytes === 0) return;
    this.#isReleased = true;
    this.bytes = 0;
    this.pieces = [`[cloche: ${this.#printedBytes} bytes of ${this.#name} are no longer kept here; read the log]\n`];
  }

  push(bytes: Buffer): void {
    this.#printedBytes += bytes.length;
    this.#add(this.#text.push(bytes));
  }

  end(): void {
    this.#add(this.#text.end());
  }

  #add(text: string): void {
    if (text === '') return;
    const last = this.pieces.length - 1;
    // Joined, so that a flood of tiny pieces weighs no more than its text.
    if ((this.pieces[last]?.length ?? PIECE_CHARACTERS) < PIECE_CHARACTERS) this.pieces[last] += text;
    else this.pieces.push(text);
    this.bytes += text.length;
  }
}
