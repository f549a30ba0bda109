/**
 * Calls `act` when `signal` aborts; at once if it has aborted already. Dispose of the result when the wait is over, so
 * that a long-lived signal keeps no listeners.
 */
export function onAbort(signal: AbortSignal, act: () => void): Disposable {
  return new AbortListener(signal, act);
}

class AbortListener implements Disposable {
  readonly #signal: AbortSignal;
  readonly #act: () => void;

  constructor(signal: AbortSignal, act: () => void) {
    this.#signal = signal;
    this.#act = act;
    if (signal.aborted) act();
    else signal.addEventListener('abort', act, { once: true });
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this.#act);
  }
}

/**
 * Settles as `promise` does, or rejects with the signal's reason as soon as the signal aborts. Does not cancel
 * `promise`.
 */
export function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const listening = onAbort(signal, () => reject(signal.reason));
    promise.then(
      (value) => {
        listening[Symbol.dispose]();
        resolve(value);
      },
      (error) => {
        listening[Symbol.dispose]();
        reject(error);
      },
    );
  });
}
