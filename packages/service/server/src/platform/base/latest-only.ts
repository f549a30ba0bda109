import { AppError } from './app-error.ts';

interface UnderWay {
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/** Lets one call for each key run at a time: a later one ends the earlier one and begins when that has ended. */
export class LatestOnly {
  readonly #byKey = new Map<string, UnderWay>();

  /** @throws AppError `conflict` if a later call takes the place of this one */
  async replace<T>(key: string, signal: AbortSignal, act: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const earlier = this.#byKey.get(key);
    const controller = new AbortController();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const own: UnderWay = { controller, ended };
    this.#byKey.set(key, own);
    earlier?.controller.abort(
      new AppError('conflict', 'A later request with the same URL took the place of this one.'),
    );
    try {
      await earlier?.ended;
      controller.signal.throwIfAborted();
      return await act(AbortSignal.any([signal, controller.signal]));
    } catch (error) {
      throw controller.signal.aborted ? controller.signal.reason : error;
    } finally {
      resolve();
      if (this.#byKey.get(key) === own) this.#byKey.delete(key);
    }
  }
}
