import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isNativeError } from 'node:util/types';

const RETRY_MS = 2;

/**
 * Replaces `process.stdout` and `process.stderr`. A write has reached the descriptor when it returns, so output
 * precedes the run's end. Nothing is buffered, so terminating the execution during a write does not affect later
 * writes.
 */
export class DescriptorStream extends Writable {
  readonly fd: number;
  readonly #isMuted: () => boolean;
  readonly #pause = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

  constructor(fd: number, isMuted: () => boolean) {
    super({ decodeStrings: false });
    this.fd = fd;
    this.#isMuted = isMuted;
  }

  override write(
    chunk: unknown,
    encodingOrCallback?: BufferEncoding | ((error?: Error | null) => void),
    callback?: (error?: Error | null) => void,
  ): boolean {
    const encoding = typeof encodingOrCallback === 'string' ? encodingOrCallback : undefined;
    const done = typeof encodingOrCallback === 'function' ? encodingOrCallback : callback;
    const bytes = toBytes(chunk, encoding);
    if (!this.#isMuted()) this.#writeFully(bytes);
    if (done) process.nextTick(done, null);
    return true;
  }

  /** Writes the chunk, but does not close the stream, as Node's own standard streams do not. */
  override end(...rest: unknown[]): this {
    const chunk = typeof rest[0] === 'function' ? undefined : rest[0];
    if (chunk !== undefined && chunk !== null) this.write(chunk);
    const done = rest.find((argument): argument is () => void => typeof argument === 'function');
    if (done) process.nextTick(done);
    return this;
  }

  override destroy(): this {
    return this;
  }

  #writeFully(bytes: Uint8Array): void {
    let written = 0;
    while (written < bytes.length) {
      try {
        written += writeSync(this.fd, bytes, written);
      } catch (error) {
        const code = isNativeError(error) && 'code' in error ? error.code : undefined;
        // A child that shares the pipe can have made it non-blocking.
        if (code === 'EAGAIN') Atomics.wait(this.#pause, 0, 0, RETRY_MS);
        // The reader has gone, or user code has closed the descriptor. Output is dropped without an error.
        else return;
      }
    }
  }
}

function toBytes(chunk: unknown, encoding: BufferEncoding | undefined): Uint8Array {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError('The "chunk" argument must be of type string or an instance of Buffer, TypedArray, or DataView');
}
