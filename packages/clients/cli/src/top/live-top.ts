import { setTimeout as delay } from 'node:timers/promises';
import { isClocheError } from '@cloche/sdk';
import { LiveScreen } from '../terminal/live-screen.ts';
import type { Colors } from '../terminal/terminal.ts';
import { frameOf, type Metrics, type OneSandbox } from './top-frames.ts';
import { pressed, shownRows, type TopState } from './top-state.ts';

const REFRESH_MS = 2_000;
const TEMPORARY = ['unreachable', 'unavailable', 'rate_limited', 'internal', 'deadline_exceeded'];

interface Calls {
  readonly signal: AbortSignal;
}

/** Sources of the screen's content. */
export interface TopSource {
  readonly url: string;
  readonly list: (calls: Calls) => Promise<Metrics>;
  readonly one: (sandboxId: string, calls: Calls) => Promise<OneSandbox>;
  readonly destroy: (sandboxId: string, calls: Calls) => Promise<void>;
}

/** The screen of `cloche top`: refreshed every two seconds, and redrawn at each key. */
export class LiveTop {
  readonly #source: TopSource;
  readonly #colors: Colors;
  readonly #quit = new AbortController();
  #wake = new AbortController();
  #state: TopState;
  #metrics: Metrics = { data: [], hasMore: false };
  #one: OneSandbox | undefined;
  #problem: string | undefined;
  #screen: LiveScreen | undefined;

  /** @param onlyId sandbox that is shown alone */
  constructor(source: TopSource, colors: Colors, onlyId?: string) {
    this.#source = source;
    this.#colors = colors;
    const isOnlyOne = onlyId !== undefined;
    this.#state = { view: isOnlyOne ? 'one' : 'list', order: 'cpu', filter: '', selectedId: onlyId, isOnlyOne };
  }

  /** Resolves when a key quits. While the service does not answer, shows that and keeps trying. */
  async run(interrupted: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([this.#quit.signal, interrupted]);
    // If the first request fails, the command fails.
    await this.#measure(signal);
    using screen = new LiveScreen((key) => this.#press(key, signal));
    this.#screen = screen;
    while (!signal.aborted) {
      this.#draw();
      this.#wake = new AbortController();
      const wait = AbortSignal.any([signal, this.#wake.signal]);
      await delay(REFRESH_MS, undefined, { signal: wait }).catch(() => undefined);
      if (!signal.aborted) await this.#measureAgain(signal);
    }
    interrupted.throwIfAborted();
  }

  async #measure(signal: AbortSignal): Promise<void> {
    const { view, isOnlyOne, selectedId } = this.#state;
    if (!isOnlyOne) this.#metrics = await this.#source.list({ signal });
    const isOne = view === 'one' || isOnlyOne;
    const one = isOne && selectedId !== undefined ? await this.#source.one(selectedId, { signal }) : undefined;
    // The user may have selected another sandbox meanwhile.
    if (selectedId === this.#state.selectedId) this.#one = one;
  }

  async #measureAgain(signal: AbortSignal): Promise<void> {
    try {
      await this.#measure(signal);
      this.#problem = undefined;
    } catch (error) {
      if (signal.aborted) return;
      const isGone = isClocheError(error, 'not_found') || isClocheError(error, 'sandbox_destroyed');
      if (!isGone && !TEMPORARY.some((code) => isClocheError(error) && error.code === code)) throw error;
      if (isGone && this.#state.isOnlyOne) throw error;
      if (isGone) this.#state = { ...this.#state, view: 'list' };
      this.#problem = error instanceof Error ? error.message : String(error);
    }
  }

  #press(key: string, signal: AbortSignal): void {
    const before = this.#state;
    const ids = shownRows(this.#metrics.data, before).map(({ sandboxId }) => sandboxId as string);
    const { state, action } = pressed(before, key, ids);
    this.#state = state;
    if (action === 'quit') this.#quit.abort();
    if (action === 'destroy' && state.selectedId !== undefined) {
      this.#destroy(state.selectedId, signal).catch(() => undefined);
    }
    if (state.view === 'one' && before.view === 'list') {
      this.#one = undefined;
      this.#wake.abort();
    }
    this.#draw();
  }

  async #destroy(sandboxId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#source.destroy(sandboxId, { signal });
      this.#problem = `${sandboxId} destroyed`;
      if (this.#state.isOnlyOne) this.#quit.abort();
      else this.#state = { ...this.#state, view: 'list' };
      this.#wake.abort();
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
    }
    this.#draw();
  }

  #draw(): void {
    if (this.#screen === undefined || this.#quit.signal.aborted) return;
    const options = {
      ...this.#screen.size,
      colors: this.#colors,
      url: this.#source.url,
      // A question to the user takes precedence over an error message.
      problem: this.#state.view === 'confirm' || this.#state.view === 'filter' ? undefined : this.#problem,
    };
    this.#screen.draw(frameOf(this.#state, this.#metrics, this.#one, options));
  }
}
