import type { Semaphore } from '@cloche/node-support';

/** The place of a build among those that its server runs at a time. */
export class BuildPlace implements Disposable {
  readonly #places: Semaphore;
  readonly #onLeft: () => void;
  #slot: Disposable;

  private constructor(places: Semaphore, slot: Disposable, onLeft: () => void) {
    this.#places = places;
    this.#slot = slot;
    this.#onLeft = onLeft;
  }

  /**
   * Returns a place, or undefined if none is free.
   *
   * @param onLeft called when the build leaves its place for a time, so that another build can take it
   */
  static take(places: Semaphore, onLeft: () => void): BuildPlace | undefined {
    const slot = places.tryAcquire();
    return slot && new BuildPlace(places, slot, onLeft);
  }

  /**
   * Leaves the place to other builds while `wait` runs, and then waits for a free one, ahead of builds that have not
   * begun. After an abort of `signal` the build has no place: it must end.
   */
  async leaveDuring(wait: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
    this.#slot[Symbol.dispose]();
    this.#onLeft();
    await wait();
    try {
      this.#slot = await this.#places.acquire(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#slot[Symbol.dispose]();
  }
}
