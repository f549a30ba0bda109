import { RUN_SILENCE_MS } from '@cloche/protocol';

/**
 * Number of checks within `RUN_SILENCE_MS`. Checks are counted instead of time, so that a sandbox that was stopped for
 * a while does not take its own pause for a silence of the server.
 */
const LOOKS = 3;

/** Notices that a server sends nothing during a run: the server has stopped, or its data does not arrive. */
export class SilenceWatch {
  readonly #isBusy: () => boolean;
  readonly #onSilent: () => void;
  #silentLooks = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param onSilent called when nothing has arrived for between two thirds and the whole of `RUN_SILENCE_MS` while
   * `isBusy`
   */
  constructor(isBusy: () => boolean, onSilent: () => void) {
    this.#isBusy = isBusy;
    this.#onSilent = onSilent;
  }

  /** Starts the watch. Call it when a run starts. The watch ends by itself when no run is active any more. */
  begin(): void {
    this.heard();
    this.#timer ??= setInterval(() => this.#look(), RUN_SILENCE_MS / LOOKS).unref();
  }

  /** Call it whenever data of the server arrives. */
  heard(): void {
    this.#silentLooks = 0;
  }

  end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    this.#silentLooks += 1;
    const isBusy = this.#isBusy();
    if (isBusy && this.#silentLooks < LOOKS) return;
    this.end();
    if (isBusy) this.#onSilent();
  }
}
