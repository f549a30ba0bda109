import type { AgentRunEvent } from '@cloche/protocol';

/**
 * Longest time that text waits to be joined with more, because one `print` makes two writes. A text that ends with a
 * newline is sent at once, unless text was sent within this time.
 */
const GATHER_MS = 2;
const GATHER_CHARACTERS = 64 * 1024;

/** Writes a run's events as lines of JSON, in order. Joins the events of one turn of the event loop into one write. */
export class EventWriter {
  readonly #runId: string;
  readonly #client: { write(lines: string): void };
  #gathered: { type: 'stdout' | 'stderr'; text: string } | undefined;
  #lines = '';
  #isScheduled = false;
  /** When text was last sent. */
  #sentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(runId: string, client: { write(lines: string): void }) {
    this.#runId = runId;
    this.#client = client;
  }

  text(type: 'stdout' | 'stderr', text: string): void {
    if (text === '') return;
    if (this.#gathered?.type !== type) this.#addGathered();
    this.#gathered = { type, text: (this.#gathered?.text ?? '') + text };
    if (this.#gathered.text.length >= GATHER_CHARACTERS) this.#send();
    else if (text.endsWith('\n') && performance.now() - this.#sentAt > GATHER_MS) this.#schedule();
    else this.#timer ??= this.#later();
  }

  event(event: AgentRunEvent): void {
    this.#addGathered();
    this.#add(event);
    this.#schedule();
  }

  end(event: AgentRunEvent): void {
    this.#addGathered();
    this.#add(event);
    this.#send();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#send();
    });
  }

  #send(): void {
    if (this.#gathered !== undefined) this.#sentAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#addGathered();
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#client.write(lines);
  }

  #later(): NodeJS.Timeout {
    return setTimeout(() => this.#send(), GATHER_MS);
  }

  #addGathered(): void {
    if (this.#gathered === undefined) return;
    const { type, text } = this.#gathered;
    this.#gathered = undefined;
    this.#add({ type, runId: this.#runId, data: text });
  }

  #add(event: AgentRunEvent): void {
    this.#lines += `${JSON.stringify(event)}\n`;
  }
}
