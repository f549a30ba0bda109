import { closeSync, readSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Fifo } from './fifo.ts';

/** Shared by all pipes, because bytes are consumed before the next read. */
const READ_BUFFER = Buffer.allocUnsafe(64 * 1024);

/** Most bytes that one `drain` reads. No pipe holds more than `fs.pipe-max-size`, so older output is within this. */
const MAX_DRAIN_BYTES = 1024 * 1024;

/** The agent's end of a kernel's standard output or error. */
export class OutputPipe {
  readonly #fifo: Fifo;
  readonly #onBytes: (bytes: Buffer) => void;
  readonly #socket: Socket;
  #open = true;
  #paused = false;

  /** @param onBytes must not use the buffer after it returns. */
  constructor(fifo: Fifo, onBytes: (bytes: Buffer) => void) {
    this.#fifo = fifo;
    this.#onBytes = onBytes;
    this.#socket = new Socket({
      fd: fifo.readFd,
      readable: true,
      writable: false,
      onread: { buffer: READ_BUFFER, callback: (count) => this.#take(count) },
    });
    this.#socket.on('error', () => this.close());
    this.#socket.resume();
  }

  get writeFd(): number {
    return this.#fifo.writeFd;
  }

  /** Closes the write end, once the kernel has inherited it. */
  closeWriteEnd(): void {
    closeSync(this.#fifo.writeFd);
  }

  /** Stops reading. Writers block once the pipe is full. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#open) this.#socket.resume();
  }

  /** Reads everything that is in the pipe now, before it returns. */
  drain(): void {
    let left = MAX_DRAIN_BYTES;
    while (this.#open && left > 0) {
      const count = readAvailable(this.#fifo.readFd);
      if (count === 0) return;
      left -= count;
      this.#onBytes(READ_BUFFER.subarray(0, count));
    }
  }

  close(): void {
    this.#open = false;
    this.#socket.destroy();
  }

  #take(count: number): boolean {
    this.#onBytes(READ_BUFFER.subarray(0, count));
    return !this.#paused;
  }
}

/** Returns 0 if the pipe is empty, which is the usual case. Omits the error's stack trace to make that case cheap. */
function readAvailable(fd: number): number {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return readSync(fd, READ_BUFFER);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return 0;
    throw error;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
