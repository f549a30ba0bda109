/** Collects uncaught exceptions and unhandled rejections, which would end the process, until it is disposed of. */
export class UncaughtErrors implements Disposable {
  #errors: unknown[] = [];
  readonly #collect = (fault: unknown) => {
    this.#errors.push(fault);
  };

  constructor() {
    process.on('uncaughtException', this.#collect).on('unhandledRejection', this.#collect);
  }

  /** Returns the faults since the last call. */
  take(): unknown[] {
    const faults = this.#errors;
    this.#errors = [];
    return faults;
  }

  [Symbol.dispose](): void {
    process.off('uncaughtException', this.#collect).off('unhandledRejection', this.#collect);
  }
}
