import { connect, type Socket } from 'node:net';
import { MAX_AGENT_EVENT_BYTES, RUNS_ACCEPTED, RUNS_UPGRADE } from '@cloche/protocol';
import { AgentFault } from '../../driver/runtime-driver.ts';
import { LineBuffer } from './line-buffer.ts';
import type { LineRoom } from './ndjson.ts';

const REQUEST = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
/** What is read ahead of whoever takes the lines. */
const READ_AHEAD_BYTES = 256 * 1024;

/** A connection to an agent that carries runs, one at a time. What comes on it is hostile: lines are bounded, no more. */
export class RunConnection {
  readonly #socket: Socket;
  readonly #lines = new LineBuffer(MAX_AGENT_EVENT_BYTES);
  /** What is left of the answer that makes it such a connection. */
  #expected = RUNS_ACCEPTED;
  #isRequested = false;
  #isBusy = false;
  #waiting: PromiseWithResolvers<void> | undefined;
  #failure: unknown;

  /** @param onEnd told once that it can carry nothing more. */
  constructor(socketPath: string, onEnd: () => void) {
    this.#socket = connect(socketPath)
      .on('data', (chunk: Buffer) => this.#receive(chunk))
      .on('error', (error) => this.destroy(new AgentFault('gone', error.message, { cause: error })))
      .on('end', () => this.destroy(new AgentFault('gone', 'the connection ended')))
      .once('close', onEnd);
  }

  /** Sends the message that begins a run; its lines follow. */
  start(message: string): void {
    this.#isBusy = true;
    this.#socket.write(this.#isRequested ? `${message}\n` : `${REQUEST}${message}\n`);
    this.#isRequested = true;
  }

  /**
   * The next line of the run; what is held of one that is not whole yet has asked `room` first. Rejects with an
   * `AgentFault`, or with the reason that it was destroyed for.
   */
  async nextLine(room: LineRoom): Promise<string> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const before = this.#lines.partialBytes;
      const line = this.#lines.take();
      if (before > 0 && line !== undefined) room.release();
      if (line !== undefined) return line;
      const held = this.#lines.partialBytes - before;
      const waiting = held > 0 ? room.hold(held) : undefined;
      if (waiting) await waiting;
      else await this.#more();
    }
  }

  /** The run is over; whether the connection can carry another. */
  finish(): boolean {
    this.#isBusy = false;
    if (this.#lines.bytes > 0) this.destroy(new AgentFault('misbehaved', 'data after the end of a run'));
    return this.#failure === undefined;
  }

  /** Cancels the run under way. */
  destroy(reason: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = reason;
    this.#socket.destroy();
    this.#wake();
  }

  #receive(chunk: Buffer): void {
    const rest = this.#expected === '' ? chunk : this.#takeExpected(chunk);
    if (rest.length === 0) return;
    if (!this.#isBusy) {
      this.destroy(new AgentFault('misbehaved', 'data from the agent outside of a run'));
      return;
    }
    this.#lines.push(rest);
    if (this.#waiting) this.#wake();
    else if (this.#lines.bytes - this.#lines.partialBytes > READ_AHEAD_BYTES) this.#socket.pause();
  }

  /** Settles when there is more to look at, or nothing will come. */
  #more(): Promise<void> {
    this.#socket.resume();
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }

  #takeExpected(chunk: Buffer): Buffer {
    const given = chunk.toString('latin1', 0, this.#expected.length);
    if (!this.#expected.startsWith(given)) {
      this.destroy(new AgentFault('misbehaved', 'an agent that did not switch to the protocol of runs'));
      return chunk.subarray(chunk.length);
    }
    this.#expected = this.#expected.slice(given.length);
    return chunk.subarray(given.length);
  }
}
