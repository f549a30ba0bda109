import { type DestinationStream, destination, symbols } from 'pino';

/** Of lines that tell of nothing wrong; within it they are written in one piece. */
const GATHER_MS = 200;
/** No more than the sink writes in one piece. */
const GATHER_BYTES = 15 * 1024;
const INFO = 30;

/**
 * Where log lines go. One for each request would wake whoever takes them for each request; what is a warning or worse
 * goes at once, with all before it. Whoever ends the process flushes.
 */
export class LogLines implements DestinationStream {
  /** Asks pino for the level of each line. */
  readonly [symbols.needsMetadataGsym] = true;
  lastLevel = INFO;
  readonly #sink;
  #timer: NodeJS.Timeout | undefined;

  /** `to` is a file or a descriptor. */
  constructor(to: string | number = 1) {
    this.#sink = destination({ dest: to, sync: true, minLength: GATHER_BYTES });
  }

  write(line: string): void {
    this.#sink.write(line);
    if (this.lastLevel > INFO) this.flushSync();
    else this.#timer ??= setTimeout(() => this.flushSync(), GATHER_MS);
  }

  flushSync(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sink.flushSync();
  }
}
