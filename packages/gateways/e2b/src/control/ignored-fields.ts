import type { Logger } from 'pino';

/** Most fields that are logged, so that a client that invents fields cannot fill the log. */
const MOST_NOTED = 100;
/** Longest name of a field in the log. */
const NAME_CHARACTERS = 64;

/** Logs, once for each, fields of E2B's clients that are unknown and have no effect. */
export class IgnoredFields {
  readonly #log: Logger;
  readonly #noted = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  note(fields: readonly string[]): void {
    for (const field of fields) {
      const name = field.slice(0, NAME_CHARACTERS);
      if (this.#noted.has(name) || this.#noted.size >= MOST_NOTED) continue;
      this.#noted.add(name);
      this.#log.warn({ field: name }, 'an unknown field of an E2B client is ignored');
    }
  }
}
