import { formatDuration } from './duration.ts';
import { printable } from './printable.ts';
import { CLEAR_LINE, type Output, type Terminal } from './terminal.ts';

const REDRAW_MS = 100;
const WIDTH = 24;
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/**
 * Shows the progress of a transfer on a terminal; shows nothing elsewhere. Our own code: a library would replace only
 * the bar itself, not the sizes, the cleaning of the name or the line for a size that is not known.
 */
export class TransferBar {
  readonly #output: Output;
  readonly #name: string;
  readonly #now: () => number;
  readonly #startedAt: number;
  #bytes = 0;
  #drawnAt = 0;

  /** @param name what is transferred; may be untrusted text */
  constructor(output: Output, name: string, now: () => number = performance.now.bind(performance)) {
    this.#output = output;
    this.#name = printable(name);
    this.#now = now;
    this.#startedAt = now();
  }

  /** Returns a bar that shows nothing if the transferred bytes go to the terminal themselves. */
  static beside({ out, err }: Terminal, name: string, target: { readonly isStandard: boolean }): TransferBar {
    return new TransferBar(target.isStandard && out.isTerminal ? { ...err, isTerminal: false } : err, name);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Yields the same chunks and counts their bytes. */
  async *count(chunks: AsyncIterable<Uint8Array>, totalBytes?: number): AsyncGenerator<Uint8Array, void> {
    try {
      for await (const chunk of chunks) {
        this.#bytes += chunk.length;
        await this.#draw(totalBytes);
        yield chunk;
      }
    } finally {
      await this.clear();
    }
  }

  /** Shows what was counted elsewhere. */
  async show(bytes: number, totalBytes: number): Promise<void> {
    this.#bytes = bytes;
    await this.#draw(totalBytes);
  }

  /** Removes the bar. */
  async clear(): Promise<void> {
    if (this.#drawnAt > 0) await this.#output.write(CLEAR_LINE);
    this.#drawnAt = 0;
  }

  async #draw(totalBytes: number | undefined): Promise<void> {
    const now = this.#now();
    if (!this.#output.isTerminal || now - Math.max(this.#drawnAt, this.#startedAt) < REDRAW_MS) return;
    this.#drawnAt = now;
    await this.#output.write(CLEAR_LINE + this.#line(now - this.#startedAt, totalBytes));
  }

  /** Returns a line that is narrower than the terminal, because a wrapped line cannot be redrawn. */
  #line(elapsedMs: number, totalBytes: number | undefined): string {
    const [bar, figures] = this.#figures(elapsedMs, totalBytes);
    const room = this.#output.columns - 1;
    const name = [...this.#name];
    const isRoomy = name.length + bar.length + figures.length <= room;
    const nameRoom = room - figures.length - (isRoomy ? bar.length : 0);
    const shown = name.length <= nameRoom ? name : [...name.slice(0, Math.max(0, nameRoom - 1)), '…'];
    return [shown.join(''), isRoomy ? bar : '', figures].join('').slice(-Math.max(room, 1));
  }

  #figures(elapsedMs: number, totalBytes: number | undefined): [bar: string, figures: string] {
    const moved = formatBytes(this.#bytes);
    const rate = `${formatBytes(elapsedMs === 0 ? 0 : (this.#bytes / elapsedMs) * 1000)}/s`;
    if (!totalBytes) return ['', `  ${moved}  ${rate}`];
    const share = Math.min(1, this.#bytes / totalBytes);
    const filled = Math.round(share * WIDTH);
    const leftMs = share === 0 ? 0 : (elapsedMs / share) * (1 - share);
    const percent = `${Math.floor(share * 100)}%`.padStart(4);
    const figures = ` ${percent}  ${moved} of ${formatBytes(totalBytes)}  ${rate}  ${formatDuration(leftMs)} left`;
    return [`  ${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)}`, figures];
  }
}

/** Returns a size in units of 1024 with one decimal: `999 B`, `1.5 MiB`, `12.3 GiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  // Compares the rounded value, because 1023.96 KiB is written as 1.0 MiB.
  while (Number(value.toFixed(1)) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
