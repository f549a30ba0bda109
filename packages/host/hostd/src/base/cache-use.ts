import { recordUse } from '@cloche/layout';
import type { Logger } from 'pino';

/** Milliseconds between notes; well below the shortest allowed `CLOCHE_CACHE_RETENTION_MS`. */
const INTERVAL_MS = 86_400_000;

/** Records once a day which cache entries are in use, so that no `npm start` on this host removes them as unused. */
export class CacheUse {
  readonly #usedDir: string;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #now: () => number;
  readonly #notedAt = new Map<string, number>();

  constructor(usedDir: string, log: Pick<Logger, 'warn'>, now: () => number = Date.now) {
    this.#usedDir = usedDir;
    this.#log = log;
    this.#now = now;
  }

  /** Records a use. Logs a failed write and does not throw. */
  note(name: string): void {
    const now = this.#now();
    if (now - (this.#notedAt.get(name) ?? 0) < INTERVAL_MS) return;
    this.#notedAt.set(name, now);
    try {
      recordUse(this.#usedDir, name, new Date(now));
    } catch (err) {
      this.#log.warn({ operation: 'note-use', name, err }, 'the cache does not know that this is used');
    }
  }
}
