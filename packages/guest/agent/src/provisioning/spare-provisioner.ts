import { reportFailure } from '@cloche/node-support';
import type { Language } from '@cloche/protocol';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';

/** The listener of a kernel without a context, which runs nothing for a client. */
export const NO_LISTENER: KernelListener = { ready() {}, printed() {}, message() {}, exited() {} };

const TIMES = {
  /** Delay before a spare is started. The context that was just opened is likely to run something first. */
  restockMs: 50,
  /** Time without use after which a spare is discarded, because it takes memory of the sandbox. */
  keptMs: 180_000,
  /** Interval at which a spare's age and the free memory are checked. */
  lookMs: 5_000,
  /** Pause before a spare that died is replaced. Doubles each time that the next one dies too. */
  retryMs: 1_000,
};

interface Spare {
  kernel: KernelProcess;
  timer: NodeJS.Timeout | undefined;
  /** Time on the clock of `performance.now()` after which the spare is unlikely to be used. */
  until: number;
}

/** A spare that will be started. */
interface Order {
  timer: NodeJS.Timeout;
  retryMs: number;
  /** Time on the clock of `performance.now()` after which the spare is unlikely to be used. */
  until: number;
}

/** Keeps kernels that were started ahead for contexts: at most one of each language. */
export class SpareProvisioner {
  readonly #start: (language: Language, listener: KernelListener) => KernelProcess;
  readonly #hasRoom: () => boolean;
  readonly #times: Readonly<typeof TIMES>;
  readonly #spares = new Map<Language, Spare>();
  readonly #orders = new Map<Language, Order>();

  /** @param start if it throws, there is no spare. */
  constructor(
    start: (language: Language, listener: KernelListener) => KernelProcess,
    hasRoom: () => boolean,
    times: Partial<typeof TIMES> = {},
  ) {
    this.#start = start;
    this.#hasRoom = hasRoom;
    this.#times = { ...TIMES, ...times };
  }

  /** Call when a context has got a kernel, because another one is likely. Idempotent. */
  restock(language: Language): void {
    const { restockMs, retryMs, keptMs } = this.#times;
    const until = performance.now() + keptMs;
    const spare = this.#spares.get(language);
    if (spare) spare.until = Math.max(spare.until, until);
    else this.#order(language, restockMs, { retryMs, until });
  }

  /** Keeps a kernel that arrived by itself, until a context takes it. */
  keep(language: Language, kernel: KernelProcess): void {
    this.#spares.set(language, { kernel, timer: undefined, until: Number.POSITIVE_INFINITY });
  }

  holds(kernel: KernelProcess): boolean {
    return [...this.#spares.values()].some((spare) => spare.kernel === kernel);
  }

  has(language: Language): boolean {
    return this.#spares.has(language);
  }

  /**
   * Returns a running spare for which `move` returns true. Without a spare it cancels the start of one, because the
   * caller now starts a kernel itself.
   */
  provision(language: Language, move: (kernel: KernelProcess) => boolean): KernelProcess | undefined {
    const spare = this.#spares.get(language);
    if (spare === undefined) this.#cancel(language);
    if (spare === undefined || !move(spare.kernel)) return undefined;
    this.#forget(language);
    if (spare.kernel.isAlive()) return spare.kernel;
    spare.kernel.stop('had ended').catch(reportFailure);
    return undefined;
  }

  /** Discards the spares for which `move` returns false. Returns their languages. */
  moveAll(move: (kernel: KernelProcess) => boolean): Language[] {
    const left = [...this.#spares].filter(([, { kernel }]) => !move(kernel)).map(([language]) => language);
    for (const language of left) this.#discard(language).catch(reportFailure);
    return left;
  }

  /** Discards the spare of a language and cancels the start of another. */
  giveUp(language: Language): void {
    this.#cancel(language);
    this.#discard(language).catch(reportFailure);
  }

  /** Discards all spares and cancels pending starts. Resolves when the spares have ended. */
  async close(): Promise<void> {
    for (const language of this.#orders.keys()) this.#cancel(language);
    await Promise.all([...this.#spares.keys()].map((language) => this.#discard(language)));
  }

  #order(language: Language, afterMs: number, { retryMs, until }: Omit<Order, 'timer'>): void {
    this.#cancel(language);
    const timer = setTimeout(() => {
      this.#orders.delete(language);
      if (this.#hasRoom()) this.#add(language, { retryMs, until });
    }, afterMs);
    this.#orders.set(language, { timer, retryMs, until });
  }

  #add(language: Language, { retryMs, until }: Omit<Order, 'timer'>): void {
    const exited = () => {
      if (this.#spares.get(language)?.kernel !== kernel) return;
      this.#forget(language);
      if (performance.now() + retryMs < until) this.#order(language, retryMs, { retryMs: 2 * retryMs, until });
    };
    const kernel = this.#tryToStart(language, { ...NO_LISTENER, exited });
    if (kernel === undefined) return;
    const spare: Spare = { kernel, timer: undefined, until };
    spare.timer = setInterval(() => {
      if (performance.now() >= spare.until || !this.#hasRoom()) this.#discard(language).catch(reportFailure);
    }, this.#times.lookMs);
    this.#spares.set(language, spare);
  }

  /** Returns undefined if no kernel can be started. The next context then tries again and reports the error. */
  #tryToStart(language: Language, listener: KernelListener): KernelProcess | undefined {
    try {
      return this.#start(language, listener);
    } catch {
      return undefined;
    }
  }

  #cancel(language: Language): void {
    clearTimeout(this.#orders.get(language)?.timer);
    this.#orders.delete(language);
  }

  #forget(language: Language): void {
    clearInterval(this.#spares.get(language)?.timer);
    this.#spares.delete(language);
  }

  async #discard(language: Language): Promise<void> {
    const kernel = this.#spares.get(language)?.kernel;
    this.#forget(language);
    await kernel?.stop('was not needed');
  }
}
