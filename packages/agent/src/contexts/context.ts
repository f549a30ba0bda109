import type { AgentContext, RunError } from '@cloche/protocol';
import { AgentError, NO_PROCESS_LEFT } from '../base/agent-error.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import type { KernelListener, RunMessage } from '../kernels/kernel-listener.ts';
import { countOomKills, countOomKillsLately, hostMayHaveKilled } from '../memory/memory.ts';
import type { ContextKernel, KernelProvisioner } from '../provisioning/kernel-provisioner.ts';
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

/**
 * Time after which a kernel that is not ready is given up if the sandbox has been refused a process or thread
 * meanwhile: Node waits without end for threads that it could not create. It is about twenty times as long as a start
 * takes.
 */
const REFUSED_START_MS = 2_000;

/** Most characters of a kernel's early output that are repeated in the error when it does not start. */
const MAX_START_OUTPUT = 4096;

const PROCESS_LIMIT_ERROR: RunError = {
  name: 'ProcessLimitError',
  message: `The interpreter could not be started: ${NO_PROCESS_LEFT}.`,
};

/** A namespace in one kernel. Executes its runs in order, one at a time. */
export class Context {
  readonly description: AgentContext;
  readonly #kernels: Pick<KernelProvisioner, 'provision' | 'hasProcessesFor' | 'countRefusals'>;
  /** Not a `KeyedQueue`: queued runs can be cancelled, fail when no kernel starts, and are limited in number. */
  readonly #queue: Run[] = [];
  #kernel: ContextKernel | undefined;
  /** Settles when the current kernel is ready or has failed to start. */
  #starting: PromiseWithResolvers<void> | undefined;
  #startOutput = '';
  /** Count of refused processes when the current kernel was provisioned. */
  #refusalsBefore = 0;
  /** Settles when the previous kernel has ended completely. */
  #room: Promise<void> | undefined;
  /** The run that the kernel executes. It may have been answered already. */
  #current: Run | undefined;
  #oomKillsBefore = 0;
  #busyTimer: NodeJS.Timeout | undefined;
  #graceTimers: NodeJS.Timeout[] = [];
  #executionCount = 0;
  #stateLost = false;
  #closed = false;

  constructor(description: AgentContext, kernels: KernelProvisioner) {
    this.description = description;
    this.#kernels = kernels;
  }

  /**
   * Starts a kernel. Resolves when it accepts runs. Waits up to `kernelWaitMs` for a kernel that the host provides
   * before it starts one itself. Throws `kernel_failed`, `process_limit`, `timeout` or `language_unavailable`.
   */
  start(timeoutMs: number, kernelWaitMs = 0): Promise<void> {
    const kernel = this.#provision(kernelWaitMs);
    const starting = Promise.withResolvers<void>();
    // Prevents an unhandled rejection if no caller waits for the start of a replacement.
    starting.promise.catch(() => {});
    this.#starting = starting;
    const timer = setTimeout(() => {
      starting.reject(new AgentError('timeout', `The kernel was not ready within ${timeoutMs} ms.`));
      void kernel.stop('was not ready in time');
    }, timeoutMs);
    const look = setInterval(() => {
      if (this.#wasRefused) void kernel.stop('lacks processes');
    }, REFUSED_START_MS);
    const settled = () => {
      clearTimeout(timer);
      clearInterval(look);
    };
    starting.promise.then(settled, settled);
    return starting.promise;
  }

  /** Whether a run is executed or queued. */
  get isBusy(): boolean {
    return this.#current !== undefined || this.#queue.length > 0;
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

  /** Ends the current run and keeps the variables. Does nothing without a current run. */
  interrupt(): void {
    if (this.#current !== undefined) this.#end(this.#current, canceled('The run was interrupted.'));
  }

  /** Passes a client's answer to the current run. Does nothing without one. */
  answer(message: string): void {
    if (this.#current?.begun && !this.#current.ended) this.#kernel?.answer(this.#current.id, message);
  }

  /** Ends the current run and starts a new kernel. Queued runs are executed by the new kernel. */
  async restart(): Promise<void> {
    const kernel = this.#detachKernel();
    this.#release(canceled('The context was restarted.'));
    // Started before the first await, so that a run submitted meanwhile does not start another kernel.
    const started = this.start(RESTART_TIMEOUT_MS);
    await Promise.all([kernel?.stop('was restarted'), started]);
  }

  /** Ends all runs and the kernel with its processes. */
  async close(): Promise<void> {
    this.#closed = true;
    const error = canceled('The context was deleted.');
    const kernel = this.#detachKernel();
    this.#release(error);
    for (const run of this.#queue.splice(0)) run.finish({ executionCount: this.#executionCount, error });
    await kernel?.stop('was deleted');
  }

  #provision(kernelWaitMs: number): ContextKernel {
    const { language, cwd } = this.description;
    this.#startOutput = '';
    this.#executionCount = 0;
    this.#refusalsBefore = this.#kernels.countRefusals();
    const listener = this.#listenerFor(() => kernel);
    const kernel: ContextKernel = this.#kernels.provision(language, { cwd, listener, kernelWaitMs, room: this.#room });
    this.#kernel = kernel;
    return kernel;
  }

  /** Returns a listener that ignores events of a kernel after it was replaced. */
  #listenerFor(self: () => ContextKernel): KernelListener {
    const isPresent = () => this.#kernel === self();
    return {
      ready: () => isPresent() && this.#onReady(),
      printed: (stream, bytes) => isPresent() && this.#onPrinted(stream, bytes),
      message: (message) => isPresent() && this.#onMessage(message),
      exited: (reason, signal) => isPresent() && this.#onExit(reason, signal),
    };
  }

  #onReady(): void {
    this.#starting?.resolve();
    this.#starting = undefined;
    this.#next();
  }

  #onPrinted(stream: StandardStream, bytes: Buffer): void {
    if (this.#starting !== undefined) this.#startOutput = (this.#startOutput + bytes).slice(-MAX_START_OUTPUT);
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

  #onExit(reason: string, signal: NodeJS.Signals | null | undefined): void {
    const lacksProcesses = this.#lacksProcesses(reason);
    // The next kernel waits for the end of this one, which still holds memory and processes.
    this.#room = this.#kernel?.stop(reason);
    this.#kernel = undefined;
    if (this.#starting !== undefined) {
      const error = lacksProcesses ? PROCESS_LIMIT_ERROR : this.#startError(reason);
      this.#starting.reject(new AgentError(lacksProcesses ? 'process_limit' : 'kernel_failed', error.message));
      this.#starting = undefined;
      this.#queue.shift()?.finish({ executionCount: 0, error });
    } else {
      const wasBusy = this.#current !== undefined;
      this.#release(this.#deathError(reason, signal));
      this.#stateLost = true;
      if (wasBusy && !this.#closed) void this.#replace();
    }
    this.#next();
  }

  #lacksProcesses(reason: string): boolean {
    // Processes that have ended since do not change the reason.
    if (reason.includes('EAGAIN') || reason.includes(NO_PROCESS_LEFT) || this.#wasRefused) return true;
    return !this.#kernels.hasProcessesFor(this.description.language);
  }

  /** Whether the sandbox has been refused a process or thread since the current kernel was provisioned. */
  get #wasRefused(): boolean {
    return this.#kernels.countRefusals() > this.#refusalsBefore;
  }

  #startError(reason: string): RunError {
    const output = this.#startOutput.trim();
    const message = `The kernel ${reason} before it was ready${output === '' ? '.' : `: ${output}`}`;
    return { name: 'KernelDiedError', message };
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
    if (this.#kernel === undefined) return void this.#replace();
    if (this.#kernel.ready) this.#begin(this.#kernel);
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
      const impossible = error instanceof AgentError && error.code === 'language_unavailable';
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
      if (run === this.#current) this.#kernel?.resume();
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
    this.#kernel?.drain();
    this.#finish(run, error);
    this.#stopExecution(run);
  }

  #stopExecution(run: Run): void {
    const kernel = this.#kernel;
    if (kernel === undefined) return;
    kernel.resume();
    const kill = () => void kernel.stop('did not stop the run');
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
    if (run === undefined) return;
    this.#finish(run, error);
    this.#kernel?.setBusy(false);
    this.#kernel?.resume();
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
    if (this.#current?.congested) this.#kernel?.pause();
  }

  #detachKernel(): ContextKernel | undefined {
    const kernel = this.#kernel;
    this.#kernel = undefined;
    this.#starting?.reject(new AgentError('kernel_failed', 'The context was closed or restarted.'));
    this.#starting = undefined;
    return kernel;
  }
}

function canceled(message: string): RunError {
  return { name: 'CanceledError', message };
}
