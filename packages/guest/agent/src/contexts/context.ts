import { reportFailure } from '@cloche/node-support';
import type { AgentContext, RunError } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import type { RunMessage } from '../kernels/kernel-listener.ts';
import { countOomKills, countOomKillsLately, hostMayHaveKilled } from '../memory/memory.ts';
import type { ContextKernel } from '../provisioning/kernel-provisioner.ts';
import { type ContextKernels, KernelOfContext } from './kernel-of-context.ts';
import type { Run, RunListener } from './run.ts';

const MAX_QUEUED_RUNS = 64;

/**
 * Time after which a run that ignores an interrupt is interrupted again; after the grace period its kernel is killed.
 */
const INTERRUPT_AGAIN_MS = 500;
const INTERRUPT_GRACE_MS = 1000;

/**
 * Delay before a kernel is marked as busy. A shorter run has no time to exhaust the memory, so it saves the marking.
 */
const MARK_BUSY_MS = 5;

/** Start timeout of a kernel that replaces one that died. No client has chosen a timeout for it. */
const RESTART_TIMEOUT_MS = 60_000;

/** A namespace in one kernel. Executes its runs in order, one at a time. */
export class Context {
  readonly description: AgentContext;
  readonly #kernel: KernelOfContext;
  /** Not a `KeyedQueue`: queued runs can be cancelled, fail when no kernel starts, and are limited in number. */
  readonly #queue: Run[] = [];
  /** The run that the kernel executes. It may have been answered already. */
  #current: Run | undefined;
  /** Resolves when the kernel has stopped executing the current run. Undefined while nothing waits for that. */
  #freed: PromiseWithResolvers<void> | undefined;
  #oomKillsBefore = 0;
  #busyTimer: NodeJS.Timeout | undefined;
  #graceTimers: NodeJS.Timeout[] = [];
  #executionCount = 0;
  #stateLost = false;
  #closed = false;

  constructor(description: AgentContext, kernels: ContextKernels) {
    this.description = description;
    this.#kernel = new KernelOfContext(description, kernels, {
      ready: () => this.#next(),
      printed: (stream, bytes) => this.#onPrinted(stream, bytes),
      message: (message) => this.#onMessage(message),
      failedToStart: (error) => this.#onFailedStart(error),
      died: (reason, signal) => this.#onDeath(reason, signal),
    });
  }

  /**
   * Starts a kernel. Resolves when it accepts runs. Waits up to `kernelWaitMs` for a kernel that the host provides
   * before it starts one itself. Throws `kernel_failed`, `process_limit`, `timeout`, `language_unavailable` or `unusable`.
   */
  async start(timeoutMs: number, kernelWaitMs = 0): Promise<void> {
    this.#executionCount = 0;
    return this.#kernel.start(timeoutMs, kernelWaitMs);
  }

  /** Number of runs that are executed or queued. */
  get runs(): number {
    return this.#queue.length + (this.#current === undefined ? 0 : 1);
  }

  /** Queues a run. Throws `queue_full`. */
  submit(run: Run): void {
    if (this.#queue.length >= MAX_QUEUED_RUNS) {
      throw new AgentError('queue_full', `${MAX_QUEUED_RUNS} runs are already queued in this context.`);
    }
    this.#queue.push(run);
    run.watch(this.#runListener);
    this.#next();
  }

  /**
   * Ends the current run and keeps the variables. Does nothing without a current run. A run of a message goes on until
   * its code has dealt with the interrupt, as Jupyter's clients expect; it may be interrupted again.
   */
  interrupt(): void {
    const run = this.#current;
    const kernel = this.#kernel.current;
    if (run === undefined) return;
    if (run.message !== undefined && run.begun && kernel?.isCrowded() === false) kernel.interrupt(run.id);
    else this.#end(run, canceled('The run was interrupted.'));
  }

  /** Ends all runs. Resolves when the kernel executes none of them any more. */
  async cancelRuns(reason: string): Promise<void> {
    for (const run of [...this.#queue]) this.#end(run, canceled(reason));
    if (this.#current === undefined) return;
    this.#freed ??= Promise.withResolvers();
    const { promise } = this.#freed;
    this.#end(this.#current, canceled(reason));
    await promise;
  }

  /** Passes a client's answer to the current run. Does nothing without one. */
  answer(message: string): void {
    if (this.#current?.begun && !this.#current.ended) this.#kernel.current?.answer(this.#current.id, message);
  }

  /** Ends the current run and starts a new kernel. Queued runs are executed by the new kernel. */
  async restart(): Promise<void> {
    const kernel = this.#kernel.detach();
    this.#release(canceled('The context was restarted.'));
    // Started before the first await, so that a run submitted meanwhile does not start another kernel.
    const started = this.start(RESTART_TIMEOUT_MS);
    await Promise.all([kernel?.stop('was restarted'), started]);
  }

  /** Ends all runs and the kernel with its processes. */
  async close(): Promise<void> {
    this.#closed = true;
    const error = canceled('The context was deleted.');
    const kernel = this.#kernel.detach();
    this.#release(error);
    for (const run of this.#queue.splice(0)) run.finish({ executionCount: this.#executionCount, error });
    await kernel?.stop('was deleted');
  }

  #onPrinted(stream: StandardStream, bytes: Buffer): void {
    // Output without a current run comes from something that an earlier run left behind. It is dropped.
    this.#current?.printed(stream, bytes);
    this.#slowDown();
  }

  #onMessage(message: RunMessage): void {
    const run = this.#current;
    if (run === undefined || run.id !== message.runId) return;
    if (message.type !== 'done') {
      if (message.type === 'output') run.output(message);
      else run.tell(message.message);
      this.#slowDown();
      return;
    }
    this.#executionCount = message.executionCount;
    this.#release(message.error);
    this.#next();
  }

  #onFailedStart(error: RunError): void {
    this.#queue.shift()?.finish({ executionCount: 0, error });
    this.#next();
  }

  #onDeath(reason: string, signal: NodeJS.Signals | null | undefined): void {
    const wasBusy = this.#current !== undefined;
    this.#release(this.#deathError(reason, signal));
    this.#stateLost = true;
    if (wasBusy && !this.#closed) this.#replace().catch(reportFailure);
    this.#next();
  }

  #deathError(reason: string, signal: NodeJS.Signals | null | undefined): RunError {
    const usedAllMemory = countOomKills() > this.#oomKillsBefore || hostMayHaveKilled();
    if ((signal === 'SIGKILL' || signal === undefined) && usedAllMemory) {
      return { name: 'OutOfMemoryError', message: 'The run used all memory of the sandbox; its kernel was killed.' };
    }
    return { name: 'KernelDiedError', message: `The kernel ${reason} during the run.` };
  }

  /** Begins the next run. Starts a kernel if there is none. */
  #next(): void {
    if (this.#closed || this.#current !== undefined || this.#queue.length === 0) return;
    const kernel = this.#kernel.current;
    if (kernel === undefined) this.#replace().catch(reportFailure);
    else if (kernel.ready) this.#begin(kernel);
  }

  #begin(kernel: ContextKernel): void {
    const run = this.#queue.shift();
    if (run === undefined) return;
    this.#current = run;
    if (run.message === undefined) this.#executionCount++;
    run.begin();
    kernel.execute(run);
    // Done while the kernel reads the code, so that it delays nothing.
    this.#busyTimer = setTimeout(() => kernel.setBusy(true), MARK_BUSY_MS);
    this.#oomKillsBefore = countOomKillsLately();
  }

  async #replace(): Promise<void> {
    try {
      await this.start(RESTART_TIMEOUT_MS);
    } catch (error) {
      // A kernel that ended before it was ready has already failed the run that waited for it. The next run tries
      // again.
      const impossible = error instanceof AgentError && ['language_unavailable', 'unusable'].includes(error.code);
      if (!impossible) return;
      const died = { name: 'KernelDiedError', message: `The kernel cannot be replaced. ${error.message}` };
      for (const run of this.#queue.splice(0)) run.finish({ executionCount: 0, error: died });
    }
  }

  readonly #runListener: RunListener = {
    timedOut: (run) => {
      const message = `The run took longer than its timeoutMs of ${run.timeoutMs} ms.`;
      this.#end(run, { name: 'TimeoutError', message });
    },
    abandoned: (run) => this.#end(run, canceled('The client disconnected.')),
    relieved: (run) => {
      if (run === this.#current) this.#kernel.current?.resume();
    },
  };

  /** Answers the run now. If the kernel executes it, the kernel is interrupted. */
  #end(run: Run, error: RunError): void {
    if (run.ended) return;
    if (run !== this.#current) {
      this.#queue.splice(this.#queue.indexOf(run), 1);
      run.finish({ executionCount: this.#executionCount, error });
      return;
    }
    this.#kernel.current?.drain();
    this.#finish(run, error);
    this.#stopExecution(run);
  }

  #stopExecution(run: Run): void {
    const kernel = this.#kernel.current;
    if (kernel === undefined) return;
    kernel.resume();
    const kill = () => {
      kernel.stop('did not stop the run').catch(reportFailure);
    };
    const interrupt = () => {
      if (kernel.isCrowded()) kill();
      else kernel.interrupt(run.id);
    };
    interrupt();
    this.#graceTimers = [setTimeout(interrupt, INTERRUPT_AGAIN_MS), setTimeout(kill, INTERRUPT_GRACE_MS)];
  }

  /** Finishes the current run, after the kernel has stopped executing it or has ended. */
  #release(error: RunError | undefined): void {
    for (const timer of this.#graceTimers.splice(0)) clearTimeout(timer);
    clearTimeout(this.#busyTimer);
    const run = this.#current;
    this.#current = undefined;
    this.#freed?.resolve();
    this.#freed = undefined;
    if (run === undefined) return;
    this.#finish(run, error);
    this.#kernel.current?.setBusy(false);
    this.#kernel.current?.resume();
  }

  #finish(run: Run, error: RunError | undefined): void {
    if (run.ended) return;
    run.finish({
      executionCount: this.#executionCount,
      stateLost: this.#stateLost,
      ...(error !== undefined && { error }),
    });
    this.#stateLost = false;
  }

  /** Pauses the kernel while the client reads too slowly, so that unread output does not fill the agent's memory. */
  #slowDown(): void {
    if (this.#current?.congested) this.#kernel.current?.pause();
  }
}

function canceled(message: string): RunError {
  return { name: 'CanceledError', message };
}
