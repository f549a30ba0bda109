/**
 * Calls `act` when `signal` aborts; at once if it has aborted already. Dispose of the result when the wait is over, so
 * that a long-lived signal keeps no listeners.
 */
export function onAbort(signal: AbortSignal, act: () => void): Disposable {
  if (signal.aborted) act();
  else signal.addEventListener('abort', act, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', act) };
}

/**
 * Settles as `promise` does, or rejects with the signal's reason as soon as the signal aborts. Does not cancel
 * `promise`.
 */
export async function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  using _ = onAbort(signal, () => aborted.reject(signal.reason));
  return await Promise.race([aborted.promise, promise]);
}
