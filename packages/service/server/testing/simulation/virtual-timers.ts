/** Replaces the timers and clocks of Node.js, so that code of the product runs in simulated time without a change. */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { Random } from '@cloche/testkit/random';
import { replace } from './replace.ts';
import type { SimulatedEvent, VirtualTime } from './virtual-time.ts';

interface TimerOptions {
  readonly signal?: AbortSignal;
}

/** Secrets are the same in every simulation; nothing depends on them. */
const SECRETS_SEED = 1;

/** The object that `setTimeout` returns. */
class Timer {
  event: SimulatedEvent | undefined;

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  clear(): void {
    if (this.event) this.event.isCanceled = true;
  }

  [Symbol.dispose](): void {
    this.clear();
  }
}

/** Installs the timers of `time` in this process. Disposal restores those of Node.js. */
export function useVirtualTimers(time: VirtualTime): Disposable {
  const { Date: RealDate, performance, Math: math } = globalThis;
  const lag = () => (time.timerLagMs === 0 ? 0 : time.random.next() * time.timerLagMs);

  const startTimer = (label: string, act: () => void, ms = 0) => {
    const timer = new Timer();
    timer.event = time.after(ms + lag(), label, act);
    return timer;
  };
  const setTimeout = (act: (...values: unknown[]) => void, ms?: number, ...values: unknown[]) =>
    startTimer('timer', () => act(...values), ms);
  const setImmediate = (act: (...values: unknown[]) => void, ...values: unknown[]) => {
    const timer = new Timer();
    timer.event = time.after(0, 'turn', () => act(...values));
    return timer;
  };
  const setInterval = (act: () => void, ms: number) => {
    const timer = new Timer();
    const again = () => {
      timer.event = time.after(ms + lag(), 'interval', () => {
        again();
        act();
      });
    };
    again();
    return timer;
  };
  const clear = (timer: unknown) => {
    if (timer instanceof Timer) timer.clear();
  };
  const promised = (start: (act: () => void) => Timer, value: unknown, { signal }: TimerOptions = {}) =>
    new Promise((resolve, reject) => {
      const abort = () => {
        timer.clear();
        reject(signal?.reason);
      };
      const timer = start(() => {
        signal?.removeEventListener('abort', abort);
        resolve(value);
      });
      if (signal?.aborted) return abort();
      signal?.addEventListener('abort', abort, { once: true });
    });

  class VirtualDate extends RealDate {
    constructor(...given: unknown[]) {
      // Sound: passes on what the caller gave to `new Date`.
      super(...((given.length === 0 ? [time.now()] : given) as [number]));
    }

    static override now(): number {
      return Math.floor(time.now());
    }
  }

  const bytes = new Random(SECRETS_SEED);
  const randomBytes = (size: number) => Buffer.from(Array.from({ length: size }, () => bytes.below(256)));

  const own = {
    setTimeout,
    clearTimeout: clear,
    setInterval,
    clearInterval: clear,
    setImmediate,
    clearImmediate: clear,
  };
  const undo = [
    replace(globalThis, { ...own, Date: VirtualDate }),
    replace(timers, own),
    replace(timersPromises, {
      setTimeout: (ms?: number, value?: unknown, options?: TimerOptions) =>
        promised((act) => startTimer('timer', act, ms), value, options),
      setImmediate: (value?: unknown, options?: TimerOptions) => promised((act) => setImmediate(act), value, options),
    }),
    replace(performance, { now: () => time.elapsed() }),
    replace(crypto, { randomBytes }),
    replace(math, { random: () => time.random.next() }),
    replace(AbortSignal, {
      timeout: () => {
        throw new Error('AbortSignal.timeout counts real time; use a Deadline');
      },
    }),
  ];
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      for (const each of undo) each();
      syncBuiltinESMExports();
    },
  };
}
