import type { ServerResponse } from 'node:http';
import type { AgentRunEvent } from '@cloche/protocol';

/** Text comes in many small pieces (one `print` is two) and is sent in fewer, at most this much later. */
const GATHER_MS = 2;
const GATHER_CHARACTERS = 64 * 1024;

/** A run that is silent for this long tells its client all the same that it was taken. */
const ACCEPT_MS = 20;

/** Beyond this the reader is behind and the kernel has to wait. */
const CONGESTED_BYTES = 1024 * 1024;

/** Writes a run's events as lines of JSON, in order. */
export class EventWriter {
  readonly #runId: string;
  readonly #response: ServerResponse;
  #gathered: { type: 'stdout' | 'stderr'; text: string } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #acceptTimer: NodeJS.Timeout | undefined;

  constructor(runId: string, response: ServerResponse) {
    this.#runId = runId;
    this.#response = response;
  }

  get congested(): boolean {
    return this.#response.writableLength > CONGESTED_BYTES;
  }

  open(): void {
    this.#response.setHeader('content-type', 'application/x-ndjson');
    this.#acceptTimer = setTimeout(() => this.#response.flushHeaders(), ACCEPT_MS);
  }

  text(type: 'stdout' | 'stderr', text: string): void {
    if (text === '') return;
    if (this.#gathered?.type !== type) this.#flush();
    this.#gathered = { type, text: (this.#gathered?.text ?? '') + text };
    if (this.#gathered.text.length >= GATHER_CHARACTERS) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  event(event: AgentRunEvent): void {
    this.#flush();
    this.#response.write(`${JSON.stringify(event)}\n`);
  }

  end(event: AgentRunEvent): void {
    clearTimeout(this.#acceptTimer);
    this.#flush();
    this.#response.end(`${JSON.stringify(event)}\n`);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#gathered === undefined) return;
    const { type, text } = this.#gathered;
    this.#gathered = undefined;
    this.#response.write(`${JSON.stringify({ type, runId: this.#runId, data: text } satisfies AgentRunEvent)}\n`);
  }
}
