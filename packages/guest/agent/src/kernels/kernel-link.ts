import type { Socket } from 'node:net';
import type { AssignMessage, FromKernel, SyncedMessage, ToKernel } from '@cloche/protocol';
import { STANDARD_STREAMS, type StandardStream } from '../base/standard-stream.ts';
import type { Fifo } from './fifo.ts';
import { encodeFrame, FrameDecoder } from './frames.ts';
import { readKernelMessage } from './kernel-messages.ts';
import { OutputPipe } from './output-pipe.ts';

/** Receives what a kernel sends, in order: output printed before a message is reported before it. */
export interface LinkListener {
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: FromKernel): void;
  /** The kernel sent something that is not a message of the protocol. */
  broken(error: Error): void;
  /** The socket has closed. The pipes may still hold output. */
  closed(): void;
}

/** The private socket of a kernel, and the pipes of its standard output and error. */
export class KernelLink {
  readonly #listener: LinkListener;
  readonly #pipes: readonly OutputPipe[];
  readonly #frames = new FrameDecoder();
  #socket: Socket | undefined;
  #isPaused = false;
  #isClosed = false;

  constructor(fifos: readonly Fifo[], listener: LinkListener) {
    this.#listener = listener;
    this.#pipes = fifos.map((fifo, index) => {
      const stream = STANDARD_STREAMS[index] ?? 'stderr';
      return new OutputPipe(fifo, (bytes) => this.#isClosed || listener.printed(stream, bytes));
    });
  }

  get writeFds(): number[] {
    return this.#pipes.map((pipe) => pipe.writeFd);
  }

  /** Closes the write ends, once the kernel has inherited them. */
  closeWriteEnds(): void {
    for (const pipe of this.#pipes) pipe.closeWriteEnd();
  }

  listen(socket: Socket): void {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#frames.push(chunk);
      this.#readMessages();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#isClosed || this.#listener.closed());
    if (this.#isPaused) socket.pause();
  }

  /** Whether the socket has closed. */
  get hasEnded(): boolean {
    return this.#socket === undefined || this.#socket.closed;
  }

  send(message: ToKernel | AssignMessage | SyncedMessage): void {
    this.#socket?.write(encodeFrame(message));
  }

  /** Reads everything that was printed so far. */
  drain(): void {
    for (const pipe of this.#pipes) pipe.drain();
  }

  /** Stops reading. The kernel blocks once its buffers are full. */
  pause(): void {
    this.#isPaused = true;
    for (const pipe of this.#pipes) pipe.pause();
    this.#socket?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const pipe of this.#pipes) pipe.resume();
    this.#socket?.resume();
    this.#readMessages();
  }

  /** Closes the socket. The pipes can still be drained. */
  hangUp(): void {
    this.#socket?.destroy();
  }

  /** Closes socket and pipes. The listener is not called any more. */
  close(): void {
    this.#isClosed = true;
    for (const pipe of this.#pipes) pipe.close();
    this.hangUp();
  }

  #readMessages(): void {
    let isDrained = false;
    try {
      while (!this.#isClosed && !this.#isPaused) {
        const frame = this.#frames.take();
        if (frame === undefined) return;
        const message = readKernelMessage(frame.message);
        if (!isDrained && !('drained' in message)) {
          // Output printed before these messages is in the pipes by now.
          this.drain();
          isDrained = true;
        }
        this.#listener.message(message);
      }
    } catch (error) {
      this.#listener.broken(error as Error);
    }
  }
}
