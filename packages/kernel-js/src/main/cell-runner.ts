import vm from 'node:vm';
import type { KernelError } from '@cloche/protocol';
import { type CompiledCell, Control, cellFileName, type FromMain } from '../messages.ts';
import type { CellSupport } from './cell-support.ts';
import { babelHelpers } from './decorator-support.ts';
import { describeError } from './describe-error.ts';
import { type Forms, render } from './render.ts';
import type { Run, Runs } from './runs.ts';
import type { StackTraces } from './stack-traces.ts';

/** Outputs that the agent has not taken yet may hold this many characters before the run has to wait. */
const MAX_PENDING_CHARACTERS = 64 * 1024 * 1024;

interface Parts {
  runs: Runs;
  support: CellSupport;
  stackTraces: StackTraces;
  control: Int32Array;
  post(message: FromMain): void;
}

/** Runs cells in the main context, one after the other. Their names live in its script scope. */
export class CellRunner {
  readonly #parts: Parts;
  readonly #declared = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns when the cell first waits; its end is posted. */
  run(number: number, cell: CompiledCell): void {
    const run: Run = { number, isOver: false };
    this.#parts.runs.enter(run, () => {
      // Interrupted while an earlier cell's timer held the thread.
      if (this.#parts.runs.isInStoppedRun()) return;
      try {
        const value = this.#start(number, cell);
        if (isThenable(value)) Promise.resolve(value).then(...this.#settle(run));
        else if (value === undefined) this.#finish(run);
        else this.#show(run, value);
      } catch (error) {
        this.#finish(run, describeError(error));
      }
    });
  }

  show(role: 'result' | 'display', forms: Forms): void {
    const run = this.#parts.runs.current();
    if (!run) return;
    const json = JSON.stringify(forms);
    const { control } = this.#parts;
    for (;;) {
      const pending = Atomics.load(control, Control.pendingBytes);
      if (pending < MAX_PENDING_CHARACTERS) break;
      Atomics.wait(control, Control.pendingBytes, pending);
    }
    Atomics.add(control, Control.pendingBytes, json.length);
    this.#parts.post({ type: 'output', number: run.number, role, forms: json });
  }

  #start(number: number, { source, sourceMaps, bindings }: CompiledCell): unknown {
    const filename = cellFileName(number);
    this.#parts.stackTraces.remember(filename, sourceMaps);
    const script = new vm.Script(source, {
      filename,
      // `import()` resolves as in a file of the working directory.
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    this.#declare(bindings);
    return script.runInThisContext()(this.#parts.support, babelHelpers);
  }

  #declare(bindings: CompiledCell['bindings']): void {
    for (const { name, global } of bindings) {
      if (this.#declared.has(name)) continue;
      vm.runInThisContext(`let ${name} = this[${JSON.stringify(global)}];`);
      this.#declared.add(name);
    }
  }

  #show(run: Run, value: unknown): void {
    render(value)
      .then((forms) => this.show('result', forms))
      .then(...this.#settle(run, { isShown: true }));
  }

  #settle(run: Run, { isShown = false } = {}): [(value: unknown) => void, (error: unknown) => void] {
    return [
      (value) => (isShown || value === undefined ? this.#finish(run) : this.#show(run, value)),
      (error) => this.#finish(run, describeError(error)),
    ];
  }

  #finish(run: Run, error?: KernelError): void {
    if (!this.#parts.runs.current()) return;
    // Promises that were rejected and never caught are told of when this turn of the event loop ends: still in the run.
    setImmediate(() => {
      if (!this.#parts.runs.current()) return;
      run.isOver = true;
      this.#parts.post({ type: 'done', number: run.number, ...(error && { error }) });
    });
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
