import { pause } from '@cloche/node-support';
import type { Logger } from 'pino';

/** Repeats a job until it is stopped. A failed pass is logged and retried. */
export class Loop {
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;

  /**
   * @param pass does the work once and returns the milliseconds to wait before the next pass.
   * @param retryMs wait after a failed pass.
   */
  constructor(name: string, pass: () => Promise<number>, retryMs: number, log: Logger) {
    this.#done = this.#run(name, pass, retryMs, log);
  }

  /** Resolves when the current pass has ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(name: string, pass: () => Promise<number>, retryMs: number, log: Logger): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const sleepMs = await pass().catch((error) => {
        log.warn({ err: error, job: name }, 'a job failed and will be repeated');
        return retryMs;
      });
      await pause(sleepMs, signal);
    }
  }
}
