/** Interval of messages while nothing is printed. Hosts give up calls without a message for a minute. */
const BEAT_MS = 5_000;
/** Shortest pause between two messages, however much is printed. */
const SHORTEST_MS = 250;
const MAX_CHARACTERS = 200;

/** Informs a host that its call is still running, with the last line of output. */
export class Progress implements Disposable {
  readonly #send: (progress: number, message: string) => void;
  readonly #beat: NodeJS.Timeout;
  #count = 0;
  #message = 'running';
  #sentAt = Number.NEGATIVE_INFINITY;

  constructor(send: (progress: number, message: string) => void) {
    this.#send = send;
    this.#beat = setInterval(() => this.#tell(), BEAT_MS).unref();
  }

  /** @param output what was printed, which may be hostile */
  report(output: string): void {
    const line = output.trimEnd().split('\n').at(-1)?.slice(0, MAX_CHARACTERS);
    if (line) this.#message = line;
    if (performance.now() - this.#sentAt >= SHORTEST_MS) this.#tell();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#beat);
  }

  #tell(): void {
    this.#sentAt = performance.now();
    this.#count += 1;
    this.#send(this.#count, this.#message);
  }
}
