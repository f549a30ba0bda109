import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { onAbort } from '@cloche/node-support';
import { ByteFrames, encodeByteFrame } from '@cloche/protocol';
import type { StandardStream } from '../base/standard-stream.ts';
import { killDescendants, signalDescendants } from './descendants.ts';
import type { Supervisors } from './supervisors.ts';

export interface SupervisorOptions {
  argv: readonly string[];
  cwd: string;
  /** The whole environment of the command. It inherits no variable of the agent. */
  env: Readonly<Record<string, string>>;
  uid: number;
  gid: number;
  /** If false, standard input is empty. */
  hasInput: boolean;
  /** Runs the command in a terminal instead of pipes. All output is `stdout` then. */
  terminal?: { columns: number; rows: number };
}

/** How the command's first process ended. */
export type CommandEnd = { exitCode: number } | { signal: NodeJS.Signals | string; exitCode: number };

/** Cause: bad folder, program not found, program not executable, or no process left. */
export type StartFailure = 'cwd' | 'missing' | 'exec' | 'processes';

/** Receives the events of a command. The last event is `ended` or `failed`, exactly once. */
export interface SupervisorListener {
  started(): void;
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  ended(end: CommandEnd): void;
  /** The command did not start, or its supervisor was lost. */
  failed(cause: StartFailure | 'lost', reason: string): void;
}

/** The process that starts a command and outlives all its descendants. */
export class Supervisor {
  readonly #supervisors: Supervisors;
  readonly #listener: SupervisorListener;
  readonly #process: ChildProcess;
  readonly #socket: Socket;
  #settled = false;
  /** Frames that wait until the command is started; undefined once it is. */
  #held: ['S' | 'I' | 'C' | 'R', string | Buffer][] | undefined = [];

  /** @param reserved whether the command uses the sandbox's reserve of processes. */
  constructor(supervisors: Supervisors, spec: SupervisorOptions, listener: SupervisorListener, reserved = false) {
    this.#supervisors = supervisors;
    this.#listener = listener;
    const { process, socket, joined } = reserved ? supervisors.takeReserved() : supervisors.take();
    this.#process = process;
    this.#socket = socket;
    const frames = new ByteFrames((type, body) => this.#take(type, body));
    this.#socket.on('data', (chunk: Buffer) => this.#read(frames, chunk));
    // Not the process's `exit` event, which can arrive before the last data on the socket.
    this.#socket.on('close', () => this.#fail('lost', 'the supervisor of the command ended'));
    this.#process.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EAGAIN') this.#fail('processes', error.message);
      else this.#fail('lost', `the supervisor of the command could not be started: ${error.message}`);
    });
    joined.then(
      () => this.#begin(spec),
      (error: Error) => {
        this.#fail('lost', `the resource limits of the command could not be set: ${error.message}`);
        this.#socket.destroy();
      },
    );
  }

  /** Writes to standard input. Returns false if the caller should wait for `drained` before it writes more. */
  write(bytes: Buffer): boolean {
    return this.#send('I', bytes);
  }

  /** Resolves when there is room for more input, when the command has ended, or when `signal` aborts. */
  async drained(signal: AbortSignal): Promise<void> {
    if (!this.#socket.writableNeedDrain || this.#socket.destroyed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const settle = () => resolve();
    this.#socket.once('drain', settle).once('close', settle);
    using _ = onAbort(signal, settle);
    await promise;
    this.#socket.off('drain', settle).off('close', settle);
  }

  /** Stops reading output. The command blocks once the buffers are full. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  endInput(): void {
    this.#send('C', '');
  }

  resize(columns: number, rows: number): void {
    this.#send('R', `${columns} ${rows}`);
  }

  /** Sends a signal to the command and all its descendants. */
  signal(signal: NodeJS.Signals): void {
    if (this.#process.pid !== undefined && !this.#isGone) signalDescendants(this.#process.pid, signal);
  }

  /** Kills the command and its descendants. Resolves when none is left, or when some cannot be killed. */
  async kill(): Promise<void> {
    const { pid } = this.#process;
    if (pid === undefined || this.#isGone) return;
    // The supervisor exits only after all its output has been read.
    this.#socket.resume();
    await killDescendants(pid, () => this.#isGone);
  }

  #begin(spec: SupervisorOptions): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    this.#send('S', optionsText(spec));
    for (const [type, body] of held) this.#send(type, body);
  }

  get #isGone(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  #send(type: 'S' | 'I' | 'C' | 'R', body: string | Buffer): boolean {
    if (this.#held) {
      this.#held.push([type, body]);
      return true;
    }
    const [header, bytes] = encodeByteFrame(type, typeof body === 'string' ? Buffer.from(body) : body);
    this.#socket.cork();
    this.#socket.write(header);
    const hasRoom = this.#socket.write(bytes);
    this.#socket.uncork();
    return hasRoom;
  }

  #read(frames: ByteFrames, chunk: Buffer): void {
    try {
      frames.push(chunk);
    } catch {
      this.#socket.destroy();
    }
  }

  #take(type: string, body: Buffer): void {
    if (this.#settled) return;
    if (type === 'O') this.#listener.printed('stdout', body);
    else if (type === 'E') this.#listener.printed('stderr', body);
    else if (type === 'P') {
      this.#listener.started();
      this.#supervisors.restock();
    } else if (type === 'X') {
      this.#settled = true;
      this.#listener.ended(readEnd(body.toString()));
    } else if (type === 'F') {
      const [, cause = 'exec', reason = ''] = /^(cwd|missing|exec|processes) (.*)$/s.exec(body.toString()) ?? [];
      // The pattern admits no other value.
      this.#fail(cause as StartFailure, reason);
      this.#supervisors.restock();
    }
  }

  #fail(cause: StartFailure | 'lost', reason: string): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#listener.failed(cause, reason);
  }
}

function optionsText(spec: SupervisorOptions): string {
  const { argv, cwd, env, uid, gid, hasInput, terminal } = spec;
  const { columns, rows } = terminal ?? { columns: 0, rows: 0 };
  const mode = terminal ? 'terminal' : 'pipes';
  const head = [mode, uid, gid, cwd, hasInput ? 1 : 0, columns, rows, argv.length, ...argv];
  return [...head, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)].join('\0');
}

function readEnd(text: string): CommandEnd {
  const [how, value = '0'] = text.split(' ');
  const number = Number(value) & 255;
  if (how !== 'signal') return { exitCode: number };
  return { exitCode: (128 + number) & 255, signal: signalName(number) };
}

function signalName(number: number): string {
  const names = Object.entries(constants.signals).filter(([, value]) => value === number);
  // A number can have two names. The first one in Node's list is the common one.
  return names[0]?.[0] ?? `SIG${number}`;
}
