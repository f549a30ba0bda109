import type { CodeExecutionError, CodeOutput, KernelMessageEvent } from '@cloche/contract';
import { readKernelText } from './kernel-text.ts';
import { type Answer, type Fields, iopub } from './message.ts';
import { mimeBundleOf, withoutOwnForms, withPlainExpressions } from './mime-bundle.ts';

/** Types of messages that show a value. */
const SHOWN: ReadonlySet<string> = new Set(['display_data', 'update_display_data', 'execute_result']);

/** How a run ended. */
export interface RunEnd {
  /** The kernel's reply; undefined if the kernel takes no messages, or if the run failed. */
  readonly reply: Fields | undefined;
  readonly error: Fields | undefined;
  readonly executionCount: number | undefined;
  /** Whether the kernel was replaced before the run. */
  readonly isStateLost: boolean;
}

/** Translates the events of a run. Forms of one value come one after the other, and Jupyter wants them together. */
export class RunOutputs {
  readonly #tell: (answer: Answer) => Promise<void>;
  readonly #executionCount: number;
  readonly #hasOwnForms: boolean;
  #bundle: CodeOutput[] = [];
  #end: RunEnd = { reply: undefined, error: undefined, executionCount: undefined, isStateLost: false };

  /**
   * @param executionCount number of the cell
   * @param hasOwnForms whether the client asks for forms that only this service has
   */
  constructor(tell: (answer: Answer) => Promise<void>, executionCount: number, hasOwnForms = false) {
    this.#tell = (answer) =>
      tell(hasOwnForms || !SHOWN.has(answer.type) ? answer : { ...answer, content: withoutOwnForms(answer.content) });
    this.#executionCount = executionCount;
    this.#hasOwnForms = hasOwnForms;
  }

  get end(): RunEnd {
    return this.#end;
  }

  async take(event: KernelMessageEvent): Promise<void> {
    if (event.type === 'output') {
      if (this.#bundle[0]?.bundle !== event.data.bundle) await this.#flush();
      this.#bundle.push(event.data);
      return;
    }
    await this.#flush();
    switch (event.type) {
      case 'message':
        return this.#takeMessage(event.data);
      case 'error':
        return this.fail(event.data);
      case 'complete':
        this.#end = {
          ...this.#end,
          executionCount: event.data.executionCount,
          isStateLost: event.data.stateLost === true,
        };
        return;
      default:
        return this.#tell(iopub('stream', { name: event.type, text: event.data }));
    }
  }

  async fail({ name, message, traceback }: CodeExecutionError): Promise<void> {
    await this.#flush();
    // What Python names an interrupt, in every language: front ends look for it.
    const ename = name === 'CanceledError' ? 'KeyboardInterrupt' : name;
    const error = { ename, evalue: message, traceback: traceback ?? [`${ename}: ${message}`] };
    this.#end = { ...this.#end, error };
    await this.#tell(iopub('error', error));
  }

  async #takeMessage(text: string): Promise<void> {
    const answer = readKernelText(text);
    if (answer?.channel === 'shell') {
      const reply = this.#hasOwnForms ? answer.content : withPlainExpressions(answer.content);
      this.#end = { ...this.#end, reply };
    } else if (answer?.type === 'execute_result') await this.#tellResult(answer);
    else if (answer) await this.#tell(answer);
  }

  async #flush(): Promise<void> {
    const outputs = this.#bundle;
    this.#bundle = [];
    if (outputs[0] === undefined) return;
    const content = { data: mimeBundleOf(outputs), metadata: {} };
    if (outputs[0].role === 'display') await this.#tell(iopub('display_data', { ...content, transient: {} }));
    else await this.#tellResult(iopub('execute_result', content));
  }

  #tellResult(answer: Answer): Promise<void> {
    return this.#tell({ ...answer, content: { ...answer.content, execution_count: this.#executionCount } });
  }
}
