import { uptime } from 'node:os';
import { KERNEL_PROTOCOL_VERSION, type KernelError, MAX_KERNEL_FRAME_BYTES, type ToKernel } from '@cloche/protocol';
import type { CellCompiler } from '../compile/compile-cell.ts';
import { Control, type FromMain, type Language, outputCost, type Seen } from '../messages.ts';
import { type LookingQuestion, readQuestion } from './code-questions.ts';
import { loadCompiler } from './compiler-program.ts';
import type { FrameSocket } from './frame-socket.ts';
import type { MainThread } from './main-thread.ts';

interface KernelSessionDeps {
  language: Language;
  mainThread: MainThread;
  socket: FrameSocket;
  control: Int32Array;
}

interface Run {
  readonly runId: string;
  readonly number: number;
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
  #executionCount = 0;
  #run: Run | undefined;
  /** Questions of this kernel so far, and the one that the main thread looks for. */
  #asked = 0;
  #question: LookingQuestion | undefined;

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
    const run = { runId, number: this.#executionCount, startedAt: uptime(), isStopping: false };
    this.#run = run;
    const compiled = this.#compiler.compile(code, run.number);
    if ('error' in compiled) this.#finish(run, compiled.error);
    else this.#mainThread.post({ type: 'run', number: run.number, cell: compiled.cell });
  }

  /** Answers a message of a client, which counts as no cell. One that is no question about code has no reply. */
  #ask(runId: string, text: string): void {
    const run = { runId, number: this.#executionCount, startedAt: uptime(), isStopping: false };
    this.#run = run;
    let question: ReturnType<typeof readQuestion>;
    try {
      question = readQuestion(text);
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
    else if (counts && message.type === 'done') this.#finish(run, message.error);
    else if (counts && message.type === 'exit')
      this.#stop(run, exit(message.exitCode), { immediately: true }).catch(endKernel);
  }

  /** Sends an output. Also settles the cost of one that is not sent, because the main thread waits for that. */
  #forward({ role, forms }: Extract<FromMain, { type: 'output' }>, run: Run | undefined): void {
    const settle = () => {
      Atomics.sub(this.#control, Control.pendingOutput, outputCost(forms));
      Atomics.notify(this.#control, Control.pendingOutput);
    };
    if (!run) {
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

  #finish({ runId, number }: Run, error: KernelError | undefined): void {
    this.#run = undefined;
    this.#question = undefined;
    this.#socket.send({ type: 'done', runId, executionCount: number, ...(error && { error }) });
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
