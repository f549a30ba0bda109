import { Socket } from 'node:net';
import { type FromKernel, MAX_KERNEL_FRAME_BYTES } from '@cloche/protocol';

const HEADER_BYTES = 4;

interface FrameSocketEvents {
  onFrame(frame: unknown): void;
  /** The other end has closed the connection or has sent an invalid frame. Called once. */
  onClose(): void;
}

/** Sends and receives frames of JSON on a stream socket; see `kernel-protocol`. */
export class FrameSocket {
  readonly #socket: Socket;
  readonly #events: FrameSocketEvents;
  #received: Buffer[] = [];
  #receivedBytes = 0;

  constructor(fd: number, events: FrameSocketEvents) {
    this.#events = events;
    this.#socket = new Socket({ fd });
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on('error', () => this.#socket.destroy());
    this.#socket.once('close', () => events.onClose());
  }

  send(message: FromKernel): void {
    this.sendJson(JSON.stringify(message));
  }

  /** Sends a frame. Calls `onWritten` when the operating system has accepted it. */
  sendJson(json: string, onWritten?: () => void): void {
    const frame = Buffer.allocUnsafe(HEADER_BYTES + Buffer.byteLength(json));
    frame.writeUInt32BE(frame.length - HEADER_BYTES);
    frame.write(json, HEADER_BYTES);
    this.#socket.write(frame, onWritten);
  }

  #receive(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#receivedBytes += chunk.length;
    for (;;) {
      const length = this.#receivedBytes < HEADER_BYTES ? undefined : this.#joined().readUInt32BE();
      if (length === undefined) return;
      if (length > MAX_KERNEL_FRAME_BYTES) {
        this.#socket.destroy();
        return;
      }
      const end = HEADER_BYTES + length;
      if (this.#receivedBytes < end) return;
      const bytes = this.#joined();
      this.#received = [bytes.subarray(end)];
      this.#receivedBytes = bytes.length - end;
      this.#events.onFrame(JSON.parse(bytes.toString('utf8', HEADER_BYTES, end)));
    }
  }

  #joined(): Buffer {
    const bytes = this.#received.length === 1 ? (this.#received[0] as Buffer) : Buffer.concat(this.#received);
    this.#received = [bytes];
    return bytes;
  }
}
