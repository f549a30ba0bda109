import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { reportFailure } from '@cloche/node-support';
import { ByteFrames, encodeByteFrame } from '@cloche/protocol';
import type { StandardStream } from '../base/standard-stream.ts';
import { type CommandEnd, type StartFailure, Supervisor, type SupervisorListener } from '../commands/supervisor.ts';
import type { Supervisors } from '../commands/supervisors.ts';
import type { AgentConfig } from '../config.ts';
import { SudoError, sudoOptions } from './sudo-request.ts';

/** Most bytes of a request: as many as Linux takes for the arguments and the environment of a program. */
const MAX_REQUEST_BYTES = 2 * 1024 * 1024;
/** Time within which a request must be complete. */
const REQUEST_MS = 10_000;
/** Unsent bytes from which the command is paused. */
const CONGESTED_BYTES = 256 * 1024;
/** Signals that are passed on. */
const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGTERM', 'SIGCONT'] as const;

export interface SudoSessionDeps {
  readonly config: AgentConfig;
  readonly supervisors: Supervisors;
}

/** One call of `sudo`. The command ends with the connection; what it has left behind when it ended by itself goes on. */
export class SudoSession implements SupervisorListener {
  readonly #deps: SudoSessionDeps;
  readonly #socket: Socket;
  readonly #isClosed = new AbortController();
  readonly #patience: NodeJS.Timeout;
  #request: Buffer[] = [];
  #requestBytes = 0;
  #supervisor: Supervisor | undefined;
  #hasEnded = false;

  constructor(socket: Socket, deps: SudoSessionDeps) {
    this.#deps = deps;
    this.#socket = socket;
    this.#patience = setTimeout(() => socket.destroy(), REQUEST_MS);
    const frames = new ByteFrames((type, body) => this.#take(type, body));
    socket.on('data', (chunk: Buffer) => this.#read(frames, chunk));
    socket.on('drain', () => this.#supervisor?.resume());
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#leave());
  }

  started(): void {}

  printed(stream: StandardStream, bytes: Buffer): void {
    this.#send(stream === 'stdout' ? 'O' : 'E', Buffer.from(bytes));
    if (this.#socket.writableLength > CONGESTED_BYTES) this.#supervisor?.pause();
  }

  ended(end: CommandEnd): void {
    const signal = 'signal' in end ? constants.signals[end.signal as NodeJS.Signals] : undefined;
    this.#finish('X', signal === undefined ? `exit ${end.exitCode}` : `signal ${signal}`);
  }

  failed(_cause: StartFailure | 'lost', reason: string): void {
    this.#finish('F', reason);
  }

  #read(frames: ByteFrames, chunk: Buffer): void {
    if (this.#hasEnded) return;
    try {
      frames.push(chunk);
    } catch (error) {
      if (error instanceof SudoError) this.#finish('F', error.message);
      else this.#socket.destroy();
    }
  }

  #take(type: string, body: Buffer): void {
    const supervisor = this.#supervisor;
    if (!supervisor) this.#takeRequest(type, body);
    else if (type === 'I') this.#feed(supervisor, Buffer.from(body));
    else if (type === 'C') supervisor.endInput();
    else if (type === 'R') this.#resize(supervisor, body.toString());
    else if (type === 'K') {
      const signal = SIGNALS.find((name) => constants.signals[name] === Number(body.toString()));
      if (signal !== undefined) supervisor.signal(signal);
    }
  }

  #takeRequest(type: string, body: Buffer): void {
    if (type === 'S') {
      clearTimeout(this.#patience);
      const options = sudoOptions(Buffer.concat(this.#request).toString(), this.#deps.config);
      this.#request = [];
      this.#supervisor = new Supervisor(this.#deps.supervisors, options, this);
      return;
    }
    this.#requestBytes += body.length;
    if (type !== 'A' || this.#requestBytes > MAX_REQUEST_BYTES) throw new SudoError('the command is too long');
    this.#request.push(Buffer.from(body));
  }

  #feed(supervisor: Supervisor, bytes: Buffer): void {
    if (supervisor.write(bytes) || this.#socket.isPaused()) return;
    this.#socket.pause();
    supervisor
      .drained(this.#isClosed.signal)
      .then(() => this.#socket.resume())
      .catch(reportFailure);
  }

  #resize(supervisor: Supervisor, text: string): void {
    const [, columns, rows] = /^([1-9]\d{0,3}) ([1-9]\d{0,3})$/.exec(text) ?? [];
    if (columns !== undefined) supervisor.resize(Number(columns), Number(rows));
  }

  #send(type: string, body: Buffer): void {
    for (const part of encodeByteFrame(type, body)) this.#socket.write(part);
  }

  #finish(type: 'X' | 'F', text: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#send(type, Buffer.from(text));
    this.#socket.end();
    // What the client still sends is dropped.
    this.#socket.resume();
  }

  #leave(): void {
    clearTimeout(this.#patience);
    this.#isClosed.abort();
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#supervisor?.kill().catch(reportFailure);
  }
}
