import { Session } from 'node:inspector/promises';
import type { MessagePort } from 'node:worker_threads';
import { Control, type FromMain, type ToMain } from '../messages.ts';
import { endProcessesStartedSince } from './child-processes.ts';

/** Time within which a running event loop answers a ping. */
const RESPONSIVE_MS = 20;
/** Time to wait for an answer before terminating again. Another endless loop may have followed the terminated one. */
const SETTLE_MS = 150;

interface StopOptions {
  immediately: boolean;
  /** Start of the run, as `os.uptime()` in seconds. */
  startedAt: number;
}

/** The thread that runs cells, as the worker controls it. */
export class MainThread {
  readonly #port: MessagePort;
  readonly #control: Int32Array;
  readonly #inspector = new Session();
  #sequence = 0;
  #onPong: ((sequence: number) => void) | undefined;

  constructor(port: MessagePort, control: Int32Array) {
    this.#port = port;
    this.#control = control;
    this.#inspector.connectToMainThread();
  }

  onMessage(listener: (message: Exclude<FromMain, { type: 'pong' }>) => void): void {
    this.#port.on('message', (message: FromMain) => {
      if (message.type === 'pong') this.#onPong?.(message.sequence);
      else listener(message);
    });
  }

  post(message: ToMain): void {
    this.#port.postMessage(message);
  }

  /**
   * Ends what the main thread executes for run `number`. Resolves when its event loop turns again and no termination is
   * pending that could hit a later cell. Code that only awaits is not terminated: it notices by itself that its run was
   * stopped. `immediately` skips the ping, for a thread that is known to be blocked.
   */
  async stop(number: number, { immediately, startedAt }: StopOptions): Promise<void> {
    Atomics.store(this.#control, Control.stoppedRun, number);
    if (!immediately && (await this.#answersWithin(RESPONSIVE_MS))) return;
    do await this.#terminateExecution(startedAt);
    while (!(await this.#answersWithin(SETTLE_MS)));
    this.post({ type: 'recover' });
  }

  /**
   * Terminates the current execution. A termination that is requested while nothing runs hits the code that runs next,
   * so pings make sure that this is the kernel's own. A thread that waits for a child process cannot be terminated;
   * the child is killed instead.
   */
  async #terminateExecution(startedAt: number): Promise<void> {
    const pings = setInterval(() => this.#ping(), RESPONSIVE_MS);
    let signal: NodeJS.Signals = 'SIGTERM';
    const children = setInterval(() => {
      endProcessesStartedSince(startedAt, signal);
      signal = 'SIGKILL';
    }, SETTLE_MS);
    try {
      await this.#inspector.post('Runtime.terminateExecution');
    } finally {
      clearInterval(pings);
      clearInterval(children);
    }
  }

  #answersWithin(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      const sequence = this.#ping();
      this.#onPong = (answered) => {
        if (answered !== sequence) return;
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  #ping(): number {
    this.#sequence += 1;
    this.post({ type: 'ping', sequence: this.#sequence });
    return this.#sequence;
  }
}
