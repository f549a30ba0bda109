import type { IncomingMessage, ServerResponse } from 'node:http';
import { type BodySink, SocketBody } from '@cloche/node-support';
import { AdaptiveFile } from './adaptive-file.ts';

const BATCH_BYTES = 512 * 1024;
/** Number of buffers: one is being written, one waits to be written, and one is being filled. */
const BATCHES = 3;

/** Does what `receive` does, for bodies that can be read directly from the socket. Worth it: see `SocketBody`. */
export async function receiveFromSocket(request: IncomingMessage, response: ServerResponse, fd: number): Promise<void> {
  const writer = new BatchWriter(new AdaptiveFile(fd), Number(request.headers['content-length']));
  const body = new SocketBody(request, response, writer);
  try {
    await writer.run(() => body.resume());
  } finally {
    body.giveUp();
  }
}

/** Writes a body in batches. The socket is read directly into them. */
class BatchWriter implements BodySink {
  readonly #file: AdaptiveFile;
  readonly #over = Promise.withResolvers<void>();
  readonly #free = Array.from({ length: BATCHES - 1 }, () => Buffer.allocUnsafeSlow(BATCH_BYTES));
  readonly #full: Buffer[] = [];
  #filling: Buffer = Buffer.allocUnsafeSlow(BATCH_BYTES);
  #filled = 0;
  #leftBytes: number;
  #position = 0;
  #isWriting = false;
  #resume: (() => void) | undefined;

  constructor(file: AdaptiveFile, sizeBytes: number) {
    this.#file = file;
    this.#leftBytes = sizeBytes;
  }

  /** Resolves when everything is written. Calls `resume` when there is room again. */
  run(resume: () => void): Promise<void> {
    this.#resume = resume;
    return this.#over.promise;
  }

  buffer(): Buffer {
    return this.#filling.subarray(this.#filled);
  }

  take(bytes: Buffer): boolean {
    if (bytes.buffer !== this.#filling.buffer) bytes.copy(this.#filling, this.#filled);
    this.#filled += bytes.length;
    this.#leftBytes -= bytes.length;
    if (this.#filled === BATCH_BYTES || this.#leftBytes === 0) this.#flush();
    // Reading goes on only if another buffer is free.
    return this.#free.length > 0;
  }

  fail(error: Error): void {
    this.#over.reject(error);
  }

  #flush(): void {
    this.#full.push(this.#filling.subarray(0, this.#filled));
    this.#filling = this.#free.pop() ?? this.#filling;
    this.#filled = 0;
    if (!this.#isWriting) this.#writeNext();
  }

  #writeNext(): void {
    const batch = this.#full.shift();
    this.#isWriting = batch !== undefined;
    if (!batch) {
      if (this.#leftBytes === 0) this.#over.resolve();
      return;
    }
    this.#file.write(batch, batch.length, this.#position).then(
      () => {
        this.#free.push(Buffer.from(batch.buffer as ArrayBuffer));
        this.#writeNext();
        this.#resume?.();
      },
      (error: Error) => this.fail(error),
    );
    this.#position += batch.length;
  }
}
