import type { Logger } from 'pino';

export interface RunApisDeps {
  /** Returns the URL at which `/v1` answers. Every request becomes requests to it, with the client's key. */
  readonly apiUrl: () => string;
  readonly log: Logger;
}
