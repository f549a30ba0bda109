/** The calls that leave a server: each takes simulated time, and request or answer may be lost. */
import { type Faults, isCut, type Link, type Peer } from './faults.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Time after which a server notices that a connection is broken. */
const NOTICED_MS = 5_000;

export interface SeamOptions {
  /** Makes the error that the server gets if request or answer is lost. */
  readonly lost: () => Error;
  /** Ends the wait of the server, not the call. */
  readonly signal?: AbortSignal | undefined;
  /** Whether neither request nor answer can be lost. */
  readonly isCertain?: boolean;
  /** Called when a request or an answer is lost, and the connection with it. */
  readonly onLost?: () => void;
}

export class Seams {
  readonly #time: VirtualTime;
  readonly #faults: Faults;

  constructor(time: VirtualTime, faults: Faults) {
    this.#time = time;
    this.#faults = faults;
  }

  /** Returns a latency: mostly below three milliseconds, now and then much longer. */
  latency(): number {
    const { random } = this.#time;
    const kind = random.next();
    if (kind < 0.96) return 0.1 + random.next() * 3;
    return random.next() * (kind < 0.995 ? 200 : 3_000);
  }

  /**
   * Calls `act` outside of the server after a while, and gives the server its result a while later. A server that ends
   * meanwhile has made the call, and never learns the result.
   */
  call<T>(peer: Peer, link: Link, label: string, act: () => T | Promise<T>, options: SeamOptions): Promise<T> {
    const { lost, signal, onLost, isCertain = false } = options;
    const time = this.#time;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const name = `${label} of ${peer.name}`;
    const fail = (ms: number) => {
      onLost?.();
      time.afterFor(peer, ms, `${label} broken`, () => reject(lost()));
    };
    if (signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      const abort = () => reject(signal.reason);
      signal.addEventListener('abort', abort, { once: true });
      void promise.catch(() => undefined).then(() => signal.removeEventListener('abort', abort));
    }
    if (!isCertain) this.#maybeCut(peer, link, name);
    const isBroken = () => !isCertain && isCut(peer, link, time.now());
    if (isBroken() || (!isCertain && this.#faults.strikes('lost request', () => name))) {
      fail(this.#faults.below(NOTICED_MS));
      return promise;
    }
    const isAnswerLost = !isCertain && this.#faults.strikes('lost answer', () => name);
    const perform = async () => {
      const settle = await this.#outcome(act, resolve, reject);
      if (isAnswerLost || isBroken()) return fail(this.#faults.below(NOTICED_MS));
      time.afterFor(peer, this.latency(), `${label} answered`, settle);
    };
    // Outside of the server: its end does not take the request back.
    time.afterFor(undefined, this.latency(), name, () => void perform());
    return promise;
  }

  async #outcome<T>(
    act: () => T | Promise<T>,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ): Promise<() => void> {
    try {
      const value = await this.#time.as(undefined, act);
      return () => resolve(value);
    } catch (error) {
      return () => reject(error);
    }
  }

  #maybeCut(peer: Peer, link: Link, where: string): void {
    if (!this.#faults.strikes('partition', () => `${link}: ${where}`)) return;
    const until = this.#time.now() + this.#faults.lengthMs();
    peer.cutUntil.set(link, until);
    this.#time.note(`${peer.name} is cut off from ${link}`);
  }
}
