import vm from 'node:vm';
import type { KernelError } from '@cloche/protocol';
import { type CompiledCell, Control, cellFileName, type FromMain, outputCost } from '../messages.ts';
import type { CellSupport } from './cell-support.ts';
import { babelHelpers } from './decorator-support.ts';
import { describeError } from './describe-error.ts';
import { type Forms, render } from './render.ts';
import type { Run, Runs } from './runs.ts';
import type { StackTraces } from './stack-traces.ts';

/** Outputs that the agent has not taken yet may cost this much before the run has to wait. */
const MAX_PENDING_OUTPUT = 32 * 1024 * 1024;

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
    this.#parts.runs.enter(run, () => this.#execute(run, cell));
  }

  show(role: 'result' | 'display', forms: Forms): void {
    const run = this.#parts.runs.current();
    if (!run) return;
    const json = JSON.stringify(forms);
    const { control } = this.#parts;
    for (;;) {
      const pending = Atomics.load(control, Control.pendingOutput);
      if (pending < MAX_PENDING_OUTPUT) break;
      Atomics.wait(control, Control.pendingOutput, pending);
    }
    Atomics.add(control, Control.pendingOutput, outputCost(json));
    this.#parts.post({ type: 'output', number: run.number, role, forms: json });
  }

  // Nothing of a promise's that user code can replace is used: only `await`.
  async #execute(run: Run, cell: CompiledCell): Promise<void> {
    // Interrupted while an earlier cell's timer held the thread.
    if (this.#parts.runs.isInStoppedRun()) return;
    try {
      const value = await this.#start(run.number, cell);
      if (value !== undefined) this.show('result', await render(value));
      this.#finish(run);
    } catch (error) {
      this.#finish(run, describeError(error));
    }
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
