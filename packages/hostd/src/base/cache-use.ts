import { noteUse } from '@cloche/layout';
import type { Logger } from 'pino';

/** Well below the shortest time that `CLOCHE_CACHE_RETENTION_MS` may be. */
const INTERVAL_MS = 86_400_000;

/** Notes what of the cache is in use, once a day each, so that no `npm start` on this host removes it as unused. */
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

  /** A folder that cannot be written is logged and stops nothing. */
  note(name: string): void {
    const now = this.#now();
    if (now - (this.#notedAt.get(name) ?? 0) < INTERVAL_MS) return;
    this.#notedAt.set(name, now);
    try {
      noteUse(this.#usedDir, name, new Date(now));
    } catch (err) {
      this.#log.warn({ operation: 'note-use', name, err }, 'the cache does not know that this is used');
    }
  }
}
