/** An undo step and what it undoes, for the report of one that fails. */
interface UndoStep {
  name: string;
  undo: () => void | Promise<void>;
}

/** What a launch has made so far, taken back in reverse order unless it is kept. */
export class UndoStack {
  readonly #steps: UndoStep[] = [];

  push(name: string, undo: UndoStep['undo']): void {
    this.#steps.push({ name, undo });
  }

  /** Runs every step, the failing ones' neighbours included, and throws all failures together. */
  async unwind(): Promise<void> {
    const failures: Error[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step.undo();
      } catch (cause) {
        failures.push(new Error(`undo ${step.name}`, { cause }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map(describe).join('; '));
  }

  /** All of it stays: somebody else answers for it from here on. */
  keep(): void {
    this.#steps.length = 0;
  }
}

function describe(failure: Error): string {
  return `${failure.message}: ${failure.cause instanceof Error ? failure.cause.message : String(failure.cause)}`;
}
