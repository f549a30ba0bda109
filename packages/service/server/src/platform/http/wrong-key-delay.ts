import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import { networkOf } from '../base/network-of.ts';

/** Delay that each wrong key adds for its address, beyond the first `FREE_KEYS`. */
const KEY_MS = 1_000;
const FREE_KEYS = 20;
/** Longest delay of an answer. Further wrong keys are refused at once. */
const MAX_DELAY_MS = 5_000;
/** Addresses remembered; beyond this, the address that sent a wrong key least recently is forgotten. */
const ADDRESSES = 10_000;

export interface WrongKeyDelayDeps {
  readonly clock: Clock;
  readonly wait?: (ms: number) => Promise<void>;
}

/**
 * Delays the answers to wrong keys from one address, and refuses them when too many wait. Requests with a valid key are
 * never delayed, so no client can lock out another client of its address. Time and memory are constant for each
 * request.
 */
export class WrongKeyDelay {
  readonly #clock: Clock;
  readonly #wait: (ms: number) => Promise<void>;
  /** For each address, the time at which the delays of its wrong keys are over. Ordered by the last wrong key. */
  readonly #paidUntil = new Map<string, number>();

  constructor({ clock, wait = pause }: WrongKeyDelayDeps) {
    this.#clock = clock;
    this.#wait = wait;
  }

  get size(): number {
    return this.#paidUntil.size;
  }

  /**
   * Resolves when a wrong key from `address` may be answered.
   *
   * @throws AppError `rate_limited` when too many wrong keys of the address already wait.
   */
  async wrongKey(address: string): Promise<void> {
    const network = networkOf(address);
    const now = this.#clock.now();
    // No more is ever owed, unless the clock was set back.
    const owed = Math.min(this.#paidUntil.get(network) ?? 0, now + MAX_DELAY_MS + FREE_KEYS * KEY_MS);
    const paidUntil = Math.max(now, owed) + KEY_MS;
    const delayMs = paidUntil - now - FREE_KEYS * KEY_MS;
    if (delayMs > MAX_DELAY_MS) throw tooManyWrong();
    this.#remember(network, paidUntil);
    if (delayMs > 0) await this.#wait(delayMs);
  }

  #remember(network: string, paidUntil: number): void {
    this.#paidUntil.delete(network);
    const [oldest] = this.#paidUntil.keys();
    if (this.#paidUntil.size >= ADDRESSES && oldest !== undefined) this.#paidUntil.delete(oldest);
    this.#paidUntil.set(network, paidUntil);
  }
}

function pause(ms: number): Promise<void> {
  return delay(ms, undefined, { ref: false });
}

function tooManyWrong(): AppError {
  return new AppError(
    'rate_limited',
    'Too many wrong API keys came from your address; check the key, then try again.',
    {
      retryAfterSeconds: Math.ceil(MAX_DELAY_MS / 1000),
    },
  );
}
