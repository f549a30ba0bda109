import type { Duplex } from 'node:stream';
import { reportFailure } from '@cloche/node-support';
import { ByteFrames, encodeByteFrame } from '@cloche/protocol';
import type { Gate, GatedTimer } from '../base/gate.ts';
import {
  type CommandEnd,
  Supervisor,
  type SupervisorListener,
  type SupervisorOptions,
} from '../commands/supervisor.ts';
import type { Supervisors } from '../commands/supervisors.ts';
import { ScreenTail } from './screen-tail.ts';

/** Unsent bytes of one client from which the shell is paused. */
const CONGESTED_BYTES = 1024 * 1024;
/** Time after which a client is disconnected if it does not catch up, or if the shell does not read its input. */
const STALL_MS = 5000;
const MAX_WATCHERS = 16;

export interface TerminalOptions {
  readonly spec: SupervisorOptions;
  /** Time without a client after which the shell is ended. */
  readonly idleMs: number;
  /** Holds that time while it is closed. */
  readonly gate: Gate;
}

/** A shell in a terminal, shared by its clients. Without clients it is ended after its idle timeout. */
export class Terminal implements SupervisorListener {
  readonly #supervisor: Supervisor;
  readonly #tail = new ScreenTail();
  readonly #watchers = new Map<Duplex, NodeJS.Timeout | undefined>();
  readonly #idleMs: number;
  readonly #gate: Gate;
  readonly #onEnd: () => void;
  #idleTimer: GatedTimer | undefined;
  #ended = false;

  /** @param onEnd called once, when the shell has ended. */
  constructor(supervisors: Supervisors, { spec, idleMs, gate }: TerminalOptions, onEnd: () => void) {
    this.#gate = gate;
    this.#idleMs = idleMs;
    this.#onEnd = onEnd;
    this.#supervisor = new Supervisor(supervisors, spec, this);
    this.#beginIdleness();
  }

  get hasClients(): boolean {
    return this.#watchers.size > 0;
  }

  get isFull(): boolean {
    return this.#watchers.size >= MAX_WATCHERS;
  }

  /** Adds a client. It gets the kept output, then new output. What it sends is input for the shell. */
  join(socket: Duplex): void {
    this.#gate.clearTimer(this.#idleTimer);
    this.#watchers.set(socket, undefined);
    const frames = new ByteFrames((type, body) => this.#take(socket, type, body));
    socket.on('data', (chunk: Buffer) => {
      try {
        frames.push(chunk);
      } catch {
        socket.destroy();
      }
    });
    socket.on('drain', () => this.#relieved(socket));
    socket.once('close', () => this.#leave(socket));
    // A client that has ended its side is disconnected.
    socket.once('end', () => socket.destroy());
    this.#send(socket, 'O', this.#tail.bytes);
  }

  async kill(): Promise<void> {
    await this.#supervisor.kill();
  }

  started(): void {}

  printed(_stream: string, bytes: Buffer): void {
    this.#tail.push(bytes);
    // Copied once for all clients, because `bytes` is only valid during this call.
    const copy = Buffer.from(bytes);
    for (const socket of this.#watchers.keys()) this.#send(socket, 'O', copy);
  }

  ended({ exitCode }: CommandEnd): void {
    this.#end(exitCode);
  }

  failed(_cause: string, reason: string): void {
    this.printed('stdout', Buffer.from(`${reason}\r\n`));
    this.#end(126);
  }

  #take(socket: Duplex, type: string, body: Buffer): void {
    if (type === 'I') {
      if (!this.#supervisor.write(Buffer.from(body)) && !socket.isPaused()) this.#holdBack(socket).catch(reportFailure);
    } else if (type === 'R') {
      const [, columns, rows] = /^(\d{1,4}) (\d{1,4})$/.exec(body.toString()) ?? [];
      if (columns !== undefined) this.#supervisor.resize(Number(columns), Number(rows));
    }
  }

  async #holdBack(socket: Duplex): Promise<void> {
    socket.pause();
    const patience = AbortSignal.timeout(STALL_MS);
    await this.#supervisor.drained(patience);
    if (patience.aborted) socket.destroy();
    else socket.resume();
  }

  #send(socket: Duplex, type: 'O' | 'X', body: Buffer): void {
    for (const part of encodeByteFrame(type, body)) socket.write(part);
    if (socket.writableLength < CONGESTED_BYTES || this.#watchers.get(socket) !== undefined) return;
    this.#watchers.set(
      socket,
      setTimeout(() => socket.destroy(), STALL_MS),
    );
    this.#supervisor.pause();
  }

  #relieved(socket: Duplex): void {
    clearTimeout(this.#watchers.get(socket));
    if (this.#watchers.has(socket)) this.#watchers.set(socket, undefined);
    this.#resumeUnlessCongested();
  }

  #leave(socket: Duplex): void {
    clearTimeout(this.#watchers.get(socket));
    this.#watchers.delete(socket);
    this.#resumeUnlessCongested();
    if (this.#watchers.size === 0) this.#beginIdleness();
  }

  #resumeUnlessCongested(): void {
    if ([...this.#watchers.values()].every((stalled) => stalled === undefined)) this.#supervisor.resume();
  }

  #beginIdleness(): void {
    if (this.#ended) return;
    this.#idleTimer = this.#gate.startTimer(() => this.kill().catch(reportFailure), this.#idleMs);
  }

  #end(exitCode: number): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#gate.clearTimer(this.#idleTimer);
    for (const socket of this.#watchers.keys()) {
      this.#send(socket, 'X', Buffer.from(String(exitCode)));
      socket.end();
    }
    this.#onEnd();
    // Ends the processes that the shell has left behind.
    this.kill().catch(reportFailure);
  }
}
