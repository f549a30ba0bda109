/** Collects uncaught exceptions and unhandled rejections, which would end the process, until it is disposed of. */
export class UnheardFaults implements Disposable {
  #faults: unknown[] = [];
  readonly #collect = (fault: unknown) => void this.#faults.push(fault);

  constructor() {
    process.on('uncaughtException', this.#collect).on('unhandledRejection', this.#collect);
  }

  /** Returns the faults since the last call. */
  take(): unknown[] {
    const faults = this.#faults;
    this.#faults = [];
    return faults;
  }

  [Symbol.dispose](): void {
    process.off('uncaughtException', this.#collect).off('unhandledRejection', this.#collect);
  }
}
