import vm from 'node:vm';
import type { KernelError } from '@cloche/protocol';
import { type CompiledCell, Control, cellFileName, type FromMain, outputCost } from '../messages.ts';
import type { CellSupport } from './cell-support.ts';
import { babelHelpers } from './decorator-support.ts';
import { describeError } from './describe-error.ts';
import { type Forms, render } from './render.ts';
import type { Run, Runs } from './runs.ts';
import type { StackTraces } from './stack-traces.ts';

/** Cost of posted outputs beyond which the run waits until the agent has taken some. */
const MAX_PENDING_OUTPUT = 32 * 1024 * 1024;

interface CellRunnerDeps {
  runs: Runs;
  support: CellSupport;
  stackTraces: StackTraces;
  control: Int32Array;
  post(message: FromMain): void;
}

/** Runs cells in the main context, one after the other. Their names live in the context's script scope. */
export class CellRunner {
  readonly #deps: CellRunnerDeps;
  readonly #declared = new Set<string>();

  constructor(deps: CellRunnerDeps) {
    this.#deps = deps;
  }

  /** Names in the scope that all cells share. */
  get declared(): ReadonlySet<string> {
    return this.#declared;
  }

  /** Starts a cell. Returns at its first await; `done` is posted at its end. */
  run(number: number, cell: CompiledCell): void {
    const run: Run = { number, isOver: false };
    this.#deps.runs.enter(run, () => this.#execute(run, cell));
  }

  show(role: 'result' | 'display', forms: Forms): void {
    const run = this.#deps.runs.current();
    if (!run) return;
    const json = JSON.stringify(forms);
    const { control } = this.#deps;
    for (;;) {
      const pending = Atomics.load(control, Control.pendingOutput);
      if (pending < MAX_PENDING_OUTPUT) break;
      Atomics.wait(control, Control.pendingOutput, pending);
    }
    Atomics.add(control, Control.pendingOutput, outputCost(json));
    this.#deps.post({ type: 'output', number: run.number, role, forms: json });
  }

  // Uses only `await` on promises, because user code can replace their methods.
  async #execute(run: Run, cell: CompiledCell): Promise<void> {
    // The run was interrupted while a timer of an earlier cell blocked the thread.
    if (this.#deps.runs.isInStoppedRun()) return;
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
    this.#deps.stackTraces.remember(filename, sourceMaps);
    const script = new vm.Script(source, {
      filename,
      // Resolves `import()` as in a file of the working directory.
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    this.#declare(bindings);
    return script.runInThisContext()(this.#deps.support, babelHelpers);
  }

  #declare(bindings: CompiledCell['bindings']): void {
    for (const { name, global } of bindings) {
      if (this.#declared.has(name)) continue;
      vm.runInThisContext(`let ${name} = this[${JSON.stringify(global)}];`);
      this.#declared.add(name);
    }
  }

  #finish(run: Run, error?: KernelError): void {
    if (!this.#deps.runs.current()) return;
    // At the end of this turn of the event loop Node reports unhandled rejections. They still belong to the run.
    setImmediate(() => {
      if (!this.#deps.runs.current()) return;
      run.isOver = true;
      this.#deps.post({ type: 'done', number: run.number, ...(error && { error }) });
    });
  }
}
