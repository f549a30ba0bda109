import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isNativeError } from 'node:util/types';

const RETRY_MS = 2;

/**
 * `process.stdout` and `process.stderr`. A write is on the descriptor when it returns, so that output precedes the
 * run's end; and nothing is buffered, so that terminating the execution in the middle of a write breaks no later one.
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

  /** Standard streams stay open, as Node's own do. */
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
        // A child that shares the pipe may have made it non-blocking.
        if (code === 'EAGAIN') Atomics.wait(this.#pause, 0, 0, RETRY_MS);
        // Whoever read it is gone, or user code closed it: output has nowhere to go, which is no reason to fail.
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
