/** What nobody listens for and would end a program, collected as long as it is not disposed. */
export class UnheardFaults implements Disposable {
  #faults: unknown[] = [];
  readonly #collect = (fault: unknown) => void this.#faults.push(fault);

  constructor() {
    process.on('uncaughtException', this.#collect).on('unhandledRejection', this.#collect);
  }

  /** Those since the last call. */
  take(): unknown[] {
    const faults = this.#faults;
    this.#faults = [];
    return faults;
  }

  [Symbol.dispose](): void {
    process.off('uncaughtException', this.#collect).off('unhandledRejection', this.#collect);
  }
}
