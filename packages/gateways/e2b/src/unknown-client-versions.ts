import type { Logger } from 'pino';

/** The newest versions of E2B's clients that the tests use. */
export const TESTED: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  js: [2, 51],
  python: [2, 63],
};
/** Most versions that are logged, so that a client that invents versions cannot fill the log. */
const MOST_LOGGED = 100;

/**
 * Logs, once for each version, that a client is newer than those in the tests. Its requests are served all the same.
 */
export class UnknownClientVersions {
  readonly #log: Logger;
  readonly #logged = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  log(userAgent = ''): void {
    const [client, language = '', major, minor] = /^e2b-(js|python)-sdk\/(\d{1,5})\.(\d{1,5})/.exec(userAgent) ?? [];
    const tested = TESTED[language];
    if (!client || !tested || this.#logged.has(client) || this.#logged.size >= MOST_LOGGED) return;
    const [testedMajor, testedMinor] = tested;
    const isNewer = Number(major) > testedMajor || (Number(major) === testedMajor && Number(minor) > testedMinor);
    if (!isNewer) return;
    this.#logged.add(client);
    this.#log.warn(
      { client, tested: tested.join('.') },
      'an E2B client is newer than those that Cloche was tested with',
    );
  }
}
