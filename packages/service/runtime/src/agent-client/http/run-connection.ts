import type { Socket } from 'node:net';
import {
  MAX_AGENT_EVENT_BYTES,
  RUNS_ACCEPTED,
  RUNS_ACCEPTED_KEPT,
  RUNS_KEEP_ALIVE,
  RUNS_UPGRADE,
} from '@cloche/protocol';
import { AgentError } from '../../driver/runtime-driver.ts';
import { LineBuffer } from './line-buffer.ts';
import type { LineMemory } from './line-memory.ts';

const REQUEST = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n${RUNS_KEEP_ALIVE}\r\n\r\n`;
/** The second response is sent by an agent that expects empty lines during a run. */
const RESPONSES: readonly string[] = [RUNS_ACCEPTED, RUNS_ACCEPTED_KEPT];
/** Bytes read ahead of the consumer. */
const READ_AHEAD_BYTES = 256 * 1024;

/**
 * A connection to an agent for runs, one at a time. Its data is hostile: this class only limits the length of lines,
 * and callers validate them.
 */
export class RunConnection {
  readonly #socket: Socket;
  readonly #lines = new LineBuffer(MAX_AGENT_EVENT_BYTES);
  /** The agent's response to the upgrade as far as it has arrived; undefined when it is complete. */
  #response: string | undefined = '';
  #isKeptAlive = false;
  #isRequested = false;
  #isBusy = false;
  #waiting: PromiseWithResolvers<void> | undefined;
  #failure: unknown;

  /**
   * @param socket a new connection to the agent, which this class owns
   * @param onEnd called once, when the connection has closed
   */
  constructor(socket: Socket, onEnd: () => void) {
    this.#socket = socket
      .on('data', (chunk: Buffer) => this.#receive(chunk))
      .on('error', (error) => this.destroy(new AgentError('gone', error.message, { cause: error })))
      .on('end', () => this.destroy(new AgentError('gone', 'the connection ended')))
      .once('close', onEnd);
  }

  /** Sends the message that starts a run. Read its lines with `nextLine`. */
  start(message: string): void {
    this.#isBusy = true;
    this.#socket.write(this.#isRequested ? `${message}\n` : `${REQUEST}${message}\n`);
    this.#isRequested = true;
  }

  /**
   * Returns the next line of the run. Requests memory from `lineMemory` before it keeps more of an incomplete line.
   * Rejects with an `AgentError`, or with the reason passed to `destroy`.
   */
  async nextLine(lineMemory: LineMemory): Promise<string> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const before = this.#lines.partialBytes;
      const line = this.#lines.take();
      if (before > 0 && line !== undefined) lineMemory.release();
      if (line !== undefined) return line;
      const held = this.#lines.partialBytes - before;
      const waiting = held > 0 ? lineMemory.hold(held) : undefined;
      if (waiting) await waiting;
      else await this.#more();
    }
  }

  /**
   * Sends an empty line during a run, which shows the agent that this server still works. Returns whether a run is
   * active.
   */
  keepAlive(): boolean {
    // Nothing is sent while earlier lines are unread, so that they do not pile up for an agent that has stopped
    // reading.
    if (this.#isBusy && this.#isKeptAlive && this.#socket.writableLength === 0) this.#socket.write('\n');
    return this.#isBusy;
  }

  /** Ends the run and returns whether the connection can be used for another. */
  finish(): boolean {
    this.#isBusy = false;
    if (this.#lines.bytes > 0)
      this.destroy(new AgentError('misbehaved', 'The agent sent data after the end of a run.'));
    return this.#failure === undefined;
  }

  /** Closes the connection, which cancels its run. */
  destroy(reason: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = reason;
    this.#socket.destroy();
    this.#wake();
  }

  #receive(chunk: Buffer): void {
    const rest = this.#response === undefined ? chunk : this.#takeResponse(this.#response, chunk);
    if (rest.length === 0) return;
    if (!this.#isBusy) {
      this.destroy(new AgentError('misbehaved', 'The agent sent data outside of a run.'));
      return;
    }
    this.#lines.push(rest);
    if (this.#waiting) this.#wake();
    else if (this.#lines.aheadBytes > READ_AHEAD_BYTES) this.#socket.pause();
  }

  /** Resolves when more data has arrived or the connection has failed. */
  #more(): Promise<void> {
    this.#socket.resume();
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }

  #takeResponse(earlier: string, chunk: Buffer): Buffer {
    const given = earlier + chunk.toString('latin1', 0, RUNS_ACCEPTED_KEPT.length);
    const complete = RESPONSES.find((response) => given.startsWith(response));
    if (complete !== undefined) {
      this.#response = undefined;
      this.#isKeptAlive = complete === RUNS_ACCEPTED_KEPT;
      return chunk.subarray(complete.length - earlier.length);
    }
    this.#response = given;
    if (!RESPONSES.some((response) => response.startsWith(given))) {
      this.destroy(new AgentError('misbehaved', 'The agent did not switch to the protocol of runs.'));
    }
    return chunk.subarray(chunk.length);
  }
}
