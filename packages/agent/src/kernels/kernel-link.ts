import type { Socket } from 'node:net';
import type { AssignMessage, FromKernel, SyncedMessage, ToKernel } from '@cloche/protocol';
import { STANDARD_STREAMS, type StandardStream } from '../base/standard-stream.ts';
import type { Fifo } from './fifo.ts';
import { encodeFrame, FrameDecoder } from './frames.ts';
import { readKernelMessage } from './kernel-messages.ts';
import { OutputPipe } from './output-pipe.ts';

/** What comes from a kernel, in order: everything that was printed before a message comes before it. */
export interface LinkListener {
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: FromKernel): void;
  /** It sent something that is no message. */
  broken(error: Error): void;
  /** Its socket has ended; what it printed may still be in its pipes. */
  closed(): void;
}

/** The private socket of one kernel, and the pipes that are its standard output and error. */
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

  /** Once the kernel has its copies. */
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

  /** Whether nothing more comes by its socket. */
  get hasEnded(): boolean {
    return this.#socket === undefined || this.#socket.closed;
  }

  send(message: ToKernel | AssignMessage | SyncedMessage): void {
    this.#socket?.write(encodeFrame(message));
  }

  /** Takes everything that was printed up to now. */
  drain(): void {
    for (const pipe of this.#pipes) pipe.drain();
  }

  /** What it prints and sends waits in the kernel, which comes to a halt. */
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

  /** The kernel's end of the socket ends too; its pipes can still be drained. */
  hangUp(): void {
    this.#socket?.destroy();
  }

  /** From here on nothing is told of it. */
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
          // What came before any of these messages is in the pipes by now.
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
