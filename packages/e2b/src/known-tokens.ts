import { hash } from 'node:crypto';
import { type Access, readAnyToken } from './access-token.ts';
import type { TokenSeal } from './e2b-deps.ts';

/**
 * Most tokens that are remembered. Checking a signature computes at most this many hashes, each of a few hundred bytes.
 */
const TOKENS = 4096;
/** Most signatures whose token is remembered, so that the next request with the same signature needs no search. */
const FOUND = 4096;

/** The parts of a URL that its signature covers. */
export interface SignedFile {
  readonly path: string;
  readonly operation: 'read' | 'write';
  readonly user: string;
  /** Seconds since the epoch, as the URL has them. */
  readonly expiration: string | undefined;
  readonly signature: string;
}

/**
 * The tokens that this server has issued or received, most recently used last. A signed URL does not name its sandbox.
 * The sandbox is found by searching these tokens for the one that made the signature. After a restart, and on another
 * server, a token is known only after the first request that carries it.
 */
export class KnownTokens implements TokenSeal {
  readonly #seal: TokenSeal;
  readonly #tokens = new Set<string>();
  readonly #found = new Map<string, string>();

  constructor(seal: TokenSeal) {
    this.#seal = seal;
  }

  seal(text: string): string {
    const token = this.#seal.seal(text);
    this.#remember(token);
    return token;
  }

  open(token: string): string {
    const text = this.#seal.open(token);
    this.#remember(token);
    return text;
  }

  /**
   * Returns the content of the token that signed the URL; undefined if no known token did.
   *
   * SECURITY: a signature is valid only for what it was made for: held by "a signed URL opens one file, to read or to
   * write, in time" in e2b-urls.test.ts.
   */
  find(file: SignedFile): Access | undefined {
    const name = JSON.stringify([file.signature, file.path, file.operation, file.user, file.expiration]);
    const token = this.#found.get(name) ?? [...this.#tokens].reverse().find((each) => isSignedBy(file, each));
    if (token === undefined) return undefined;
    this.#found.delete(name);
    this.#found.set(name, token);
    const [oldest] = this.#found.keys();
    if (this.#found.size > FOUND && oldest !== undefined) this.#found.delete(oldest);
    return readAnyToken(token, this.#seal);
  }

  #remember(token: string): void {
    this.#tokens.delete(token);
    this.#tokens.add(token);
    const [oldest] = this.#tokens;
    if (this.#tokens.size > TOKENS && oldest !== undefined) this.#tokens.delete(oldest);
  }
}

function isSignedBy({ path, operation, user, expiration, signature }: SignedFile, token: string): boolean {
  const text = [path, operation, user, token, ...(expiration === undefined ? [] : [expiration])].join(':');
  return signature === `v1_${hash('sha256', text, 'base64').replace(/=+$/, '')}`;
}
