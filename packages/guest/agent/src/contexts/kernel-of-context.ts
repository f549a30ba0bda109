import { reportFailure } from '@cloche/node-support';
import type { AgentContext, RunError } from '@cloche/protocol';
import { AgentError, NO_PROCESS_LEFT } from '../base/agent-error.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import type { KernelListener, RunMessage } from '../kernels/kernel-listener.ts';
import type { ContextKernel, KernelProvisioner } from '../provisioning/kernel-provisioner.ts';

/**
 * Time after which a kernel that is not ready is given up if the sandbox has been refused a process or thread
 * meanwhile: Node waits without end for threads that it could not create. It is about twenty times as long as a start
 * takes.
 */
const REFUSED_START_MS = 2_000;

/** Ends of a kernel that have nothing to do with how much memory and how many processes there are. */
const HOPELESS = /^exited with code [1-9]|^did not start: spawn \S+ (?:ENOENT|EACCES|ENOEXEC|ELOOP|EPERM|ENOTDIR)$/;
/** Most characters of a kernel's early output in the error of a request. */
const MAX_CAUSE = 300;

/** Most characters of a kernel's early output that are repeated in the error when it does not start. */
const MAX_START_OUTPUT = 4096;

const PROCESS_LIMIT_ERROR: RunError = {
  name: 'ProcessLimitError',
  message: `The interpreter could not be started: ${NO_PROCESS_LEFT}.`,
};

/** Receives the events of a context's kernel. A kernel that was replaced or detached has no further events. */
export interface KernelEvents {
  /** The kernel accepts runs. */
  ready(): void;
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: RunMessage): void;
  /** The kernel ended before it was ready. There is no kernel any more. */
  failedToStart(error: RunError): void;
  /** The kernel ended after it was ready. There is no kernel any more. */
  died(reason: string, signal: NodeJS.Signals | null | undefined): void;
}

export type ContextKernels = Pick<KernelProvisioner, 'provision' | 'hasProcessesFor' | 'countRefusals'>;

/** Starts the kernels of one context, one after another, and says why one did not start. */
export class KernelOfContext {
  readonly #description: AgentContext;
  readonly #kernels: ContextKernels;
  readonly #events: KernelEvents;
  #current: ContextKernel | undefined;
  /** Settles when the current kernel is ready or has failed to start. */
  #starting: PromiseWithResolvers<void> | undefined;
  #startOutput = '';
  /** Count of refused processes when the current kernel was provisioned. */
  #refusalsBefore = 0;
  /** Settles when the previous kernel has ended completely. */
  #room: Promise<void> | undefined;

  constructor(description: AgentContext, kernels: ContextKernels, events: KernelEvents) {
    this.#description = description;
    this.#kernels = kernels;
    this.#events = events;
  }

  /** The kernel that has started or is about to; undefined if the last one has ended. */
  get current(): ContextKernel | undefined {
    return this.#current;
  }

  /**
   * Starts a kernel. Resolves when it accepts runs. Waits up to `kernelWaitMs` for a kernel that the host provides
   * before it starts one itself. Throws `kernel_failed`, `process_limit`, `timeout`, `language_unavailable` or `unusable`.
   */
  start(timeoutMs: number, kernelWaitMs: number): Promise<void> {
    const kernel = this.#provision(kernelWaitMs);
    const starting = Promise.withResolvers<void>();
    // Prevents an unhandled rejection if no caller waits for the start of a replacement.
    starting.promise.catch(() => {});
    this.#starting = starting;
    const timer = setTimeout(() => {
      starting.reject(new AgentError('timeout', `The kernel was not ready within ${timeoutMs} ms.`));
      kernel.stop('was not ready in time').catch(reportFailure);
    }, timeoutMs);
    const look = setInterval(() => {
      if (this.#wasRefused) kernel.stop('lacks processes').catch(reportFailure);
    }, REFUSED_START_MS);
    const settled = () => {
      clearTimeout(timer);
      clearInterval(look);
    };
    starting.promise.then(settled, settled);
    return starting.promise;
  }

  /** Fails the start under way. Returns the kernel, if there is one, which the caller stops. */
  detach(): ContextKernel | undefined {
    const kernel = this.#current;
    this.#current = undefined;
    this.#starting?.reject(new AgentError('kernel_failed', 'The context was closed or restarted.'));
    this.#starting = undefined;
    return kernel;
  }

  #provision(kernelWaitMs: number): ContextKernel {
    const { language, cwd } = this.#description;
    this.#startOutput = '';
    this.#refusalsBefore = this.#kernels.countRefusals();
    const listener = this.#listenerFor(() => kernel);
    const kernel: ContextKernel = this.#kernels.provision(language, { cwd, listener, kernelWaitMs, room: this.#room });
    this.#current = kernel;
    return kernel;
  }

  /** Returns a listener that ignores events of a kernel after it was replaced. */
  #listenerFor(self: () => ContextKernel): KernelListener {
    const isPresent = () => this.#current === self();
    return {
      ready: () => isPresent() && this.#onReady(),
      printed: (stream, bytes) => isPresent() && this.#onPrinted(stream, bytes),
      message: (message) => isPresent() && this.#events.message(message),
      exited: (reason, signal) => isPresent() && this.#onExit(reason, signal),
    };
  }

  #onReady(): void {
    this.#starting?.resolve();
    this.#starting = undefined;
    this.#events.ready();
  }

  #onPrinted(stream: StandardStream, bytes: Buffer): void {
    if (this.#starting !== undefined) this.#startOutput = (this.#startOutput + bytes).slice(-MAX_START_OUTPUT);
    this.#events.printed(stream, bytes);
  }

  #onExit(reason: string, signal: NodeJS.Signals | null | undefined): void {
    const lacksProcesses = this.#lacksProcesses(reason);
    // The next kernel waits for the end of this one, which still holds memory and processes.
    this.#room = this.#current?.stop(reason);
    this.#current = undefined;
    const starting = this.#starting;
    if (starting === undefined) {
      this.#events.died(reason, signal);
      return;
    }
    const error = lacksProcesses ? PROCESS_LIMIT_ERROR : this.#startError(reason);
    if (lacksProcesses) starting.reject(new AgentError('process_limit', error.message));
    else
      starting.reject(
        this.#isHopeless(reason) ? this.#hopeless(reason) : new AgentError('kernel_failed', error.message),
      );
    this.#starting = undefined;
    this.#events.failedToStart(error);
  }

  #lacksProcesses(reason: string): boolean {
    // Processes that have ended since do not change the reason.
    if (reason.includes('EAGAIN') || reason.includes(NO_PROCESS_LEFT) || this.#wasRefused) return true;
    return !this.#kernels.hasProcessesFor(this.#description.language);
  }

  /** Whether the sandbox has been refused a process or thread since the current kernel was provisioned. */
  get #wasRefused(): boolean {
    return this.#kernels.countRefusals() > this.#refusalsBefore;
  }

  /** Whether the next start would fail in the same way, because the interpreter or its libraries do not work. */
  #isHopeless(reason: string): boolean {
    return HOPELESS.test(reason) && !/\bMemoryError\b|\bENOMEM\b|allocat/.test(this.#startOutput);
  }

  /** Returns the error with the end of what the interpreter has printed, which names the cause. */
  #hopeless(reason: string): AgentError {
    const output = this.#startOutput.trim().slice(-MAX_CAUSE);
    const printed = output === '' ? '' : `: ${output}`;
    return new AgentError(
      'unusable',
      `the interpreter of ${this.#description.language} ${reason} before it was ready${printed}`,
    );
  }

  #startError(reason: string): RunError {
    const output = this.#startOutput.trim();
    const message = `The kernel ${reason} before it was ready${output === '' ? '.' : `: ${output}`}`;
    return { name: 'KernelDiedError', message };
  }
}
