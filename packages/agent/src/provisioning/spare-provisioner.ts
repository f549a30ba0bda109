import type { Language } from '@cloche/protocol';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';

/** For a kernel that belongs to no context: it runs nothing for a client. */
export const NO_LISTENER: KernelListener = { ready() {}, printed() {}, message() {}, exited() {} };

const TIMES = {
  /** The context that was just opened is likely to run something: that comes first. */
  restockMs: 50,
  /** A spare holds memory of the sandbox, so one that nobody wants goes. */
  keptMs: 180_000,
  /** How often it is looked whether there still is room for it. */
  lookMs: 5_000,
  /** One that died is replaced after that long, and after twice as long each time that the next one dies too. */
  retryMs: 1_000,
};

interface Spare {
  kernel: KernelProcess;
  timer: NodeJS.Timeout | undefined;
  /** The time, by `performance.now()`, from which on the kernel is unlikely to be used. */
  until: number;
}

/** A spare to come. */
interface Order {
  timer: NodeJS.Timeout;
  retryMs: number;
  /** When nobody is likely to want it any more; by `performance.now()`. */
  until: number;
}

/** Gives contexts kernels that were started ahead: one of each language at most. */
export class SpareProvisioner {
  readonly #start: (language: Language, listener: KernelListener) => KernelProcess;
  readonly #hasRoom: () => boolean;
  readonly #times: Readonly<typeof TIMES>;
  readonly #spares = new Map<Language, Spare>();
  readonly #orders = new Map<Language, Order>();

  /** @param start may throw, then there is no spare. */
  constructor(
    start: (language: Language, listener: KernelListener) => KernelProcess,
    hasRoom: () => boolean,
    times: Partial<typeof TIMES> = {},
  ) {
    this.#start = start;
    this.#hasRoom = hasRoom;
    this.#times = { ...TIMES, ...times };
  }

  /** To be called when somebody has got a kernel, and is likely to want another. Idempotent. */
  restock(language: Language): void {
    const { restockMs, retryMs, keptMs } = this.#times;
    const until = performance.now() + keptMs;
    const spare = this.#spares.get(language);
    if (spare) spare.until = Math.max(spare.until, until);
    else this.#order(language, restockMs, { retryMs, until });
  }

  /** Keeps one that came by itself, for as long as nobody takes it. */
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
   * Returns a spare that lives, if `move` says that it works where it is wanted. Where there is none the caller starts one,
   * and no spare is started meanwhile.
   */
  provision(language: Language, move: (kernel: KernelProcess) => boolean): KernelProcess | undefined {
    const spare = this.#spares.get(language);
    if (spare === undefined) this.#cancel(language);
    if (spare === undefined || !move(spare.kernel)) return undefined;
    this.#forget(language);
    if (spare.kernel.isAlive()) return spare.kernel;
    void spare.kernel.stop('had ended');
    return undefined;
  }

  /** Gives up those that cannot `move`. Returns the languages that have none any more. */
  moveAll(move: (kernel: KernelProcess) => boolean): Language[] {
    const left = [...this.#spares].filter(([, { kernel }]) => !move(kernel)).map(([language]) => language);
    for (const language of left) void this.#discard(language);
    return left;
  }

  /** Nobody is going to want one of that language. */
  giveUp(language: Language): void {
    this.#cancel(language);
    void this.#discard(language);
  }

  /** Resolves when none is left, and none comes. */
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
      if (performance.now() >= spare.until || !this.#hasRoom()) void this.#discard(language);
    }, this.#times.lookMs);
    this.#spares.set(language, spare);
  }

  /** Undefined if its program has gone since: whoever opens the next context is told. */
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
