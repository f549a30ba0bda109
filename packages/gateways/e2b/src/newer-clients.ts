import type { Logger } from 'pino';

/** The newest versions of E2B's clients that the tests use. */
export const HELD: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  js: [2, 51],
  python: [2, 63],
};
/** Most versions that are logged, so that a client that invents versions cannot fill the log. */
const MOST_NOTED = 100;

/**
 * Logs, once for each version, that a client is newer than those in the tests. Its requests are served all the same.
 */
export class NewerClients {
  readonly #log: Logger;
  readonly #noted = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  see(userAgent = ''): void {
    const [client, language = '', major, minor] = /^e2b-(js|python)-sdk\/(\d{1,5})\.(\d{1,5})/.exec(userAgent) ?? [];
    const held = HELD[language];
    if (!client || !held || this.#noted.has(client) || this.#noted.size >= MOST_NOTED) return;
    const [heldMajor, heldMinor] = held;
    const isNewer = Number(major) > heldMajor || (Number(major) === heldMajor && Number(minor) > heldMinor);
    if (!isNewer) return;
    this.#noted.add(client);
    this.#log.warn({ client, held: held.join('.') }, 'an E2B client is newer than those that Cloche was tested with');
  }
}
