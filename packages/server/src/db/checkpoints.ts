import { Worker } from 'node:worker_threads';

/** At most some ten thousand pages of the log, and a quarter of that where many records are written together. */
const EVERY_WRITES = 1000;

export interface CheckpointSettings {
  readonly everyWrites?: number;
  /** Whoever writes has to do it from now on: there is no thread that does. */
  readonly onFailure: () => void;
}

/**
 * Brings what was written from the log of a database into its file, in a thread of its own: a checkpoint waits for the
 * disk, twice, and every request would wait with it.
 */
export class Checkpoints {
  readonly #file: string;
  readonly #everyWrites: number;
  readonly #onFailure: () => void;
  #worker: Worker | undefined;
  #writes = 0;
  #isUnderWay = false;
  #isClosed = false;

  constructor(file: string, { everyWrites = EVERY_WRITES, onFailure }: CheckpointSettings) {
    this.#file = file;
    this.#everyWrites = everyWrites;
    this.#onFailure = onFailure;
  }

  /** One more statement that writes was executed. */
  wrote(): void {
    if (++this.#writes < this.#everyWrites || this.#isUnderWay || this.#isClosed) return;
    this.#writes = 0;
    this.#isUnderWay = true;
    this.#worker ??= this.#start();
    this.#worker.postMessage('checkpoint');
  }

  close(): void {
    this.#isClosed = true;
    this.#worker?.postMessage('close');
  }

  #start(): Worker {
    const worker = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), { workerData: this.#file });
    worker.on('message', () => {
      this.#isUnderWay = false;
    });
    worker.once('error', () => {
      this.#isClosed = true;
      this.#onFailure();
    });
    worker.unref();
    return worker;
  }
}
