import type { Logger } from 'pino';

/** Encrypts tokens with a key that all servers of an installation share. */
export interface TokenSeal {
  seal(text: string): string;
  /** @throws Error if this installation did not seal the text. */
  open(sealed: string): string;
}

export interface E2bDeps {
  /** Returns the URL at which `/v1` answers. Every request of a client becomes requests to it, with the client's key. */
  readonly apiUrl: () => string;
  readonly seal: TokenSeal;
  readonly log: Logger;
}
