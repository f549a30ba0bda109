/** An undo step; its name is for the error when it fails. */
interface UndoStep {
  name: string;
  undo: () => void | Promise<void>;
}

/** Undo steps of a launch, run in reverse order unless the result is kept. */
export class UndoStack {
  readonly #steps: UndoStep[] = [];

  push(name: string, undo: UndoStep['undo']): void {
    this.#steps.push({ name, undo });
  }

  /** Runs every step, even after one fails, and throws all failures together. */
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

  /** Discards the steps: another owner is now responsible for the resources. */
  keep(): void {
    this.#steps.length = 0;
  }
}

function describe(failure: Error): string {
  return `${failure.message}: ${failure.cause instanceof Error ? failure.cause.message : String(failure.cause)}`;
}
