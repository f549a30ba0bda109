import type { Logger } from 'pino';

/** The newest versions of E2B's clients that the tests use. */
export const HELD: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  js: [2, 51],
  python: [2, 63],
};
/** Versions that are noted; a client that makes versions up fills no log. */
const MOST_NOTED = 100;

/** Notes in the log, once for each version, that a client is newer than those of the tests. It is answered as the others. */
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
