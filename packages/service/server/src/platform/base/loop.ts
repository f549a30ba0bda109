import { Deadline, pause } from '@cloche/node-support';
import type { Logger } from 'pino';

/**
 * Does the work once. Returns the milliseconds to wait before the next pass. `woken` is true if `wake` ended the wait
 * before this pass.
 */
export type Pass = (woken: boolean) => Promise<number>;

/**
 * Calls `look` again and again until it is stopped: it looks at what other servers have changed or left behind. Never
 * calls it where the database has one server.
 */
export type WatchOthers = (name: string, look: () => Promise<unknown>, everyMs: number) => Pick<Loop, 'stop'>;

/** Repeats a job until it is stopped. A failed pass is logged and retried. */
export class Loop {
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  #woken = Promise.withResolvers<void>();

  /**
   * @param retryMs wait after a failed pass.
   * @param pauseMs pause after each pass, which `wake` does not end, so that many changes at once cost few passes.
   */
  constructor(name: string, pass: Pass, retryMs: number, log: Logger, pauseMs = 0) {
    this.#done = this.#run(name, pass, { retryMs, pauseMs }, log);
  }

  /** Ends the current wait. During a pass, the next one follows without a wait. */
  wake(): void {
    this.#woken.resolve();
  }

  /** Resolves when the current pass has ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(name: string, pass: Pass, waits: { retryMs: number; pauseMs: number }, log: Logger): Promise<void> {
    const { signal } = this.#stop;
    for (let isWoken = false; !signal.aborted; ) {
      this.#woken = Promise.withResolvers();
      const sleepMs = await pass(isWoken).catch((error) => {
        log.warn({ err: error, job: name }, 'a job failed and will be repeated');
        return waits.retryMs;
      });
      if (waits.pauseMs > 0) await pause(waits.pauseMs, signal);
      using limit = new Deadline(sleepMs, signal);
      isWoken = await limit.race(this.#woken.promise).then(
        () => true,
        () => false,
      );
    }
  }
}
