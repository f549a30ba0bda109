import { RUN_SILENCE_MS } from '@cloche/protocol';

/** Looks within the time of a silence. Counted, so that a sandbox that stood still does not blame the server for it. */
const LOOKS = 3;

/** Notices that a server has fallen silent during a run: it stands still, or nothing that it sends arrives. */
export class SilenceWatch {
  readonly #isBusy: () => boolean;
  readonly #onSilent: () => void;
  #silentLooks = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onSilent called when the server was silent for two to three thirds of `RUN_SILENCE_MS` while `isBusy` */
  constructor(isBusy: () => boolean, onSilent: () => void) {
    this.#isBusy = isBusy;
    this.#onSilent = onSilent;
  }

  /** Call it when a run starts. The watch ends by itself after the last one. */
  begin(): void {
    this.heard();
    this.#timer ??= setInterval(() => this.#look(), RUN_SILENCE_MS / LOOKS).unref();
  }

  /** Call it for all that the server sends. */
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
