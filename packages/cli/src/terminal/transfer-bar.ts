import { formatDuration } from './duration.ts';
import type { Output } from './terminal.ts';

const REDRAW_MS = 100;
const WIDTH = 24;
const CLEAR_LINE = '\r\u001b[2K';
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** How far a transfer is, on a terminal; elsewhere nothing. */
export class TransferBar {
  readonly #output: Output;
  readonly #name: string;
  readonly #now: () => number;
  readonly #startedAt: number;
  #bytes = 0;
  #drawnAt = 0;

  constructor(output: Output, name: string, now: () => number = performance.now.bind(performance)) {
    this.#output = output;
    this.#name = name;
    this.#now = now;
    this.#startedAt = now();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The same chunks, counted. */
  async *count(chunks: AsyncIterable<Uint8Array>, totalBytes?: number): AsyncGenerator<Uint8Array, void> {
    try {
      for await (const chunk of chunks) {
        this.#bytes += chunk.length;
        await this.#draw(totalBytes);
        yield chunk;
      }
    } finally {
      if (this.#drawnAt > 0) await this.#output.write(CLEAR_LINE);
      this.#drawnAt = 0;
    }
  }

  /** What it was in all, for people. */
  summary(): string {
    const elapsedMs = this.#now() - this.#startedAt;
    return `${formatBytes(this.#bytes)} in ${formatDuration(elapsedMs)}, ${this.#rate(elapsedMs)}`;
  }

  async #draw(totalBytes: number | undefined): Promise<void> {
    const now = this.#now();
    if (!this.#output.isTerminal || now - Math.max(this.#drawnAt, this.#startedAt) < REDRAW_MS) return;
    this.#drawnAt = now;
    await this.#output.write(CLEAR_LINE + this.#line(now - this.#startedAt, totalBytes));
  }

  #line(elapsedMs: number, totalBytes: number | undefined): string {
    const moved = formatBytes(this.#bytes);
    if (!totalBytes) return `${this.#name}  ${moved}  ${this.#rate(elapsedMs)}`;
    const share = Math.min(1, this.#bytes / totalBytes);
    const filled = Math.round(share * WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(WIDTH - filled);
    const leftMs = share === 0 ? 0 : (elapsedMs / share) * (1 - share);
    const percent = `${Math.floor(share * 100)}%`.padStart(4);
    const total = `${moved} of ${formatBytes(totalBytes)}`;
    return `${this.#name}  ${bar} ${percent}  ${total}  ${this.#rate(elapsedMs)}  ${formatDuration(leftMs)} left`;
  }

  #rate(elapsedMs: number): string {
    return `${formatBytes(elapsedMs === 0 ? 0 : (this.#bytes / elapsedMs) * 1000)}/s`;
  }
}

/** With three digits at least: `999 B`, `1.50 MB`, `12.3 GB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 ? Math.round(value).toString() : value.toPrecision(3);
  return `${digits} ${UNITS[unit]}`;
}
