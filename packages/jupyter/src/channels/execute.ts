import { type CodeExecutionError, type CodeOutput, type CodeRunEvent, LIMITS } from '@cloche/contract';
import { type Context, isClocheError } from '@cloche/sdk';
import type { Answer, Fields } from './message.ts';
import { mimeBundleOf } from './mime-bundle.ts';

export interface Execution {
  readonly code: string;
  readonly isSilent: boolean;
  /** Number of the cell, if the kernel has executed as many as this server knows. */
  readonly executionCount: number;
  readonly signal: AbortSignal;
  /** Sends a message. The run waits until it is sent. */
  readonly tell: (answer: Answer) => Promise<void>;
}

/** The content of an `execute_reply`. */
export interface ExecuteReply extends Fields {
  readonly status: 'ok' | 'error';
  readonly execution_count: number;
}

/** Runs a cell by `/v1` and tells its outputs as they come. Returns the reply. */
export async function execute(context: Context, execution: Execution): Promise<ExecuteReply> {
  const { code, isSilent, executionCount, signal } = execution;
  const tell = (answer: Answer) => (isSilent && answer.type !== 'error' ? Promise.resolve() : execution.tell(answer));
  if (code.trim() === '') return okReply(executionCount - 1);
  await tell(iopub('execute_input', { code, execution_count: executionCount }));
  const run = new RunOutputs(tell, executionCount);
  try {
    for await (const event of context.stream(code, { timeoutMs: LIMITS.runTimeoutMaxMs, signal }))
      await run.take(event);
  } catch (error) {
    if (!isClocheError(error)) throw error;
    return run.fail({ name: error.code, message: error.message });
  }
  return run.reply;
}

/** Returns the reply of a cell that went well. */
export function okReply(executionCount: number): ExecuteReply {
  return { status: 'ok', execution_count: executionCount, user_expressions: {}, payload: [] };
}

export function iopub(type: string, content: Fields): Answer {
  return { channel: 'iopub', type, content };
}

/** Translates the events of a run. Forms of one value come one after the other, and Jupyter wants them together. */
class RunOutputs {
  readonly #tell: (answer: Answer) => Promise<void>;
  readonly #executionCount: number;
  #bundle: CodeOutput[] = [];
  reply: ExecuteReply;

  constructor(tell: (answer: Answer) => Promise<void>, executionCount: number) {
    this.#tell = tell;
    this.#executionCount = executionCount;
    this.reply = okReply(executionCount);
  }

  async take(event: CodeRunEvent): Promise<void> {
    if (event.type === 'output') {
      if (this.#bundle[0]?.bundle !== event.data.bundle) await this.#flush();
      this.#bundle.push(event.data);
      return;
    }
    await this.#flush();
    if (event.type === 'stdout' || event.type === 'stderr') {
      await this.#tell(iopub('stream', { name: event.type, text: event.data }));
    } else if (event.type === 'error') {
      await this.fail(event.data);
    } else {
      this.reply = { ...this.reply, execution_count: event.data.executionCount };
    }
  }

  async fail({ name, message, traceback }: CodeExecutionError): Promise<ExecuteReply> {
    await this.#flush();
    const error = {
      // What Python names an interrupt, in every language: front ends look for it.
      ename: name === 'CanceledError' ? 'KeyboardInterrupt' : name,
      evalue: message,
      traceback: traceback ?? [`${name}: ${message}`],
    };
    await this.#tell(iopub('error', error));
    this.reply = { ...error, status: 'error', execution_count: this.#executionCount };
    return this.reply;
  }

  async #flush(): Promise<void> {
    const outputs = this.#bundle;
    this.#bundle = [];
    if (outputs[0] === undefined) return;
    const content = { data: mimeBundleOf(outputs), metadata: {} };
    if (outputs[0].role === 'display') await this.#tell(iopub('display_data', { ...content, transient: {} }));
    else await this.#tell(iopub('execute_result', { ...content, execution_count: this.#executionCount }));
  }
}
