import { uptime } from 'node:os';
import { KERNEL_PROTOCOL_VERSION, type KernelError, MAX_KERNEL_FRAME_BYTES, type ToKernel } from '@cloche/protocol';
import type { CellCompiler } from '../compile/compile-cell.ts';
import { Control, type FromMain, type Language, outputCost, type Seen } from '../messages.ts';
import { CellHistory } from './cell-history.ts';
import { type CellsKnown, type LookingQuestion, readQuestion } from './code-questions.ts';
import { loadCompiler } from './compiler-program.ts';
import type { FrameSocket } from './frame-socket.ts';
import type { MainThread } from './main-thread.ts';
import { UserExpressions } from './user-expressions.ts';

interface KernelSessionDeps {
  language: Language;
  mainThread: MainThread;
  socket: FrameSocket;
  control: Int32Array;
}

interface Run {
  readonly runId: string;
  /** Number of the newest cell or expression that the main thread runs for it. */
  number: number;
  /** `os.uptime()` in seconds. */
  readonly startedAt: number;
  /** Set when the run is being stopped. Later messages about it are ignored. */
  isStopping: boolean;
}

/** Ends the kernel by an uncaught exception of its worker. Its end tells the agent. */
function endKernel(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/** Reports runs to the agent: the outputs of a run, and exactly one `done`. */
export class KernelSession {
  readonly #mainThread: MainThread;
  readonly #socket: FrameSocket;
  readonly #control: Int32Array;
  readonly #language: Language;
  #loaded: CellCompiler | undefined;
  readonly #history = new CellHistory();
  readonly #cells: CellsKnown = {
    completeness: (code) => this.#compiler.completeness(code),
    history: (request) => this.#history.find(request),
  };
  /** Cells so far, and cells and expressions so far. */
  #executionCount = 0;
  #number = 0;
  #run: Run | undefined;
  /** Questions of this kernel so far, and the one that the main thread looks for. */
  #asked = 0;
  #question: LookingQuestion | undefined;
  #expressions: UserExpressions | undefined;

  constructor({ language, mainThread, socket, control }: KernelSessionDeps) {
    this.#mainThread = mainThread;
    this.#socket = socket;
    this.#control = control;
    this.#language = language;
    mainThread.onMessage((message) => this.#onMessage(message));
  }

  get #compiler(): CellCompiler {
    this.#loaded ??= loadCompiler(import.meta.dirname, this.#language);
    return this.#loaded;
  }

  /**
   * Handles a message of the agent. If stopping a run fails, the kernel ends, and so the run.
   */
  receive(frame: unknown): void {
    // The agent is trusted, because it starts the kernel. Its frames are not validated.
    const message = frame as ToKernel;
    if (message.type === 'execute' && message.message !== undefined) this.#ask(message.runId, message.message);
    else if (message.type === 'execute') this.#execute(message.runId, message.code);
    else if (message.type === 'interrupt' && this.#run?.runId === message.runId)
      this.#stop(this.#run, interruption()).catch(endKernel);
  }

  #execute(runId: string, code: string): void {
    this.#executionCount += 1;
    this.#history.add(this.#executionCount, code);
    this.#run = { runId, number: this.#number, startedAt: uptime(), isStopping: false };
    this.#start(this.#run, code);
  }

  #start(run: Run, code: string): void {
    this.#number += 1;
    run.number = this.#number;
    const compiled = this.#compiler.compile(code, run.number);
    if ('error' in compiled) this.#end(run, compiled.error);
    else this.#mainThread.post({ type: 'run', number: run.number, cell: compiled.cell });
  }

  /** Ends a cell, or an expression, after which the next one begins. */
  #end(run: Run, error: KernelError | undefined): void {
    this.#expressions?.end(error);
    if (this.#expressions) this.#evaluate(run, this.#expressions);
    else this.#finish(run, error);
  }

  #evaluate(run: Run, expressions: UserExpressions): void {
    const code = expressions.next();
    if (code === undefined) {
      this.#socket.send({ type: 'message', runId: run.runId, message: expressions.reply() });
      this.#finish(run, undefined);
    } else this.#start(run, code);
  }

  /** Answers a message of a client, which counts as no cell. One that is no question about code has no reply. */
  #ask(runId: string, text: string): void {
    const run = { runId, number: this.#number, startedAt: uptime(), isStopping: false };
    this.#run = run;
    let question: ReturnType<typeof readQuestion>;
    try {
      question = readQuestion(text, this.#cells);
    } catch (error) {
      const message = `The message cannot be read: ${(error as Error).message}`;
      this.#finish(run, { name: 'Error', message, traceback: [`Error: ${message}`] });
      return;
    }
    if (question && 'look' in question) {
      this.#asked += 1;
      this.#question = question;
      this.#mainThread.post({ type: 'look', look: { ...question.look, sequence: this.#asked } });
      return;
    }
    if (question && 'expressions' in question) {
      this.#expressions = new UserExpressions(question.expressions);
      this.#evaluate(run, this.#expressions);
      return;
    }
    if (question) this.#socket.send({ type: 'message', runId, message: question.reply });
    this.#finish(run, undefined);
  }

  #answer(run: Run, seen: Seen): void {
    if (!this.#question || seen.sequence !== this.#asked) return;
    this.#socket.send({ type: 'message', runId: run.runId, message: this.#question.replyOf(seen) });
    this.#finish(run, undefined);
  }

  #onMessage(message: Exclude<FromMain, { type: 'pong' }>): void {
    if (message.type === 'ready') {
      this.#socket.send({ type: 'ready', protocolVersion: KERNEL_PROTOCOL_VERSION });
      setImmediate(() => this.#compiler.warmUp());
      return;
    }
    const run = this.#run;
    if (message.type === 'seen') {
      if (run && !run.isStopping) this.#answer(run, message.seen);
      return;
    }
    const counts = run?.number === message.number && !run.isStopping;
    if (message.type === 'output') this.#forward(message, counts ? run : undefined);
    else if (counts && message.type === 'done') this.#end(run, message.error);
    else if (counts && message.type === 'exit')
      this.#stop(run, exit(message.exitCode), { immediately: true }).catch(endKernel);
  }

  /** Sends an output. Also settles the cost of one that is not sent, because the main thread waits for that. */
  #forward({ role, forms }: Extract<FromMain, { type: 'output' }>, run: Run | undefined): void {
    const settle = () => {
      Atomics.sub(this.#control, Control.pendingOutput, outputCost(forms));
      Atomics.notify(this.#control, Control.pendingOutput);
    };
    if (run && role === 'result') this.#expressions?.show(forms);
    if (!run || (role === 'result' && this.#expressions)) {
      settle();
      return;
    }
    const json = `{"type":"output","runId":${JSON.stringify(run.runId)},"role":"${role}","forms":${forms}}`;
    const isTooLarge = Buffer.byteLength(json) > MAX_KERNEL_FRAME_BYTES;
    this.#socket.sendJson(isTooLarge ? tooLarge(run, role, json.length) : json, settle);
  }

  async #stop(run: Run, error: KernelError, { immediately = false } = {}): Promise<void> {
    if (run.isStopping) return;
    run.isStopping = true;
    await this.#mainThread.stop(run.number, { immediately, startedAt: run.startedAt });
    this.#finish(run, error);
  }

  #finish({ runId }: Run, error: KernelError | undefined): void {
    this.#run = undefined;
    this.#question = undefined;
    this.#expressions = undefined;
    this.#socket.send({ type: 'done', runId, executionCount: this.#executionCount, ...(error && { error }) });
  }
}

function interruption(): KernelError {
  const message = 'The run was interrupted';
  return { name: 'InterruptedError', message, traceback: [`InterruptedError: ${message}`] };
}

function exit(code: number): KernelError {
  const message = `process.exit(${code}) was called; the context and its variables stay`;
  return { name: 'ExitError', message, traceback: [`ExitError: ${message}`] };
}

function tooLarge({ runId }: Run, role: 'result' | 'display', size: number): string {
  const text = `[An output of ${size} bytes was left out: the largest possible is ${MAX_KERNEL_FRAME_BYTES} bytes]`;
  return JSON.stringify({ type: 'output', runId, role, forms: { 'text/plain': text } });
}
