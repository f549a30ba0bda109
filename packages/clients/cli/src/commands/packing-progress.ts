import type { ArchiveProgress, PackingNote } from '@cloche/sdk';
import type { Session } from '../session.ts';
import { TransferBar } from '../terminal/transfer-bar.ts';

const WHY = {
  socket: 'it is a socket',
  pipe: 'it is a pipe',
  device: 'it is a device',
  removed: 'it was removed',
} as const;

/** Shows on a terminal how much was packed and uploaded. */
export class PackingProgress {
  readonly #session: Pick<Session, 'terminal' | 'note'>;
  readonly #now: () => number;
  readonly #noted = new Set<string>();
  #bar: TransferBar | undefined;
  #phase = '';

  constructor(session: Pick<Session, 'terminal' | 'note'>, now: () => number = performance.now.bind(performance)) {
    this.#session = session;
    this.#now = now;
  }

  show({ phase, bytes, totalBytes }: ArchiveProgress): void {
    if (phase !== this.#phase) this.#bar = new TransferBar(this.#session.terminal.err, phase, this.#now);
    this.#phase = phase;
    this.#bar?.show(bytes, totalBytes).catch(() => undefined);
  }

  /** Prints a note once, even if packing is repeated after a failure. */
  note({ path, reason }: PackingNote): void {
    const text = reason === 'changed' ? `${path} changed while it was packed` : `${path} is left out: ${WHY[reason]}`;
    if (this.#noted.has(text)) return;
    this.#noted.add(text);
    this.end()
      .then(() => this.#session.note(text))
      .catch(() => undefined);
  }

  async end(): Promise<void> {
    await this.#bar?.clear();
  }
}
