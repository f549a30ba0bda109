import { createHash } from 'node:crypto';
import { TimeSlice } from '@cloche/node-support';
import { type Access, readAnyToken } from './access-token.ts';
import type { TokenSeal } from './e2b-deps.ts';

/** Most tokens that are remembered. Checking a signature computes at most this many hashes. */
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

interface Known {
  readonly text: string;
  /** The organization whose key is in the token. */
  readonly owner: string;
}

/**
 * The tokens that this server has issued or received, most recently used last. A signed URL does not name its sandbox.
 * The sandbox is found by searching these tokens for the one that made the signature. After a restart, and on another
 * server, a token is known only after the first request that carries it. When there are too many, the organization that
 * has most of them loses one.
 */
export class KnownTokens implements TokenSeal {
  readonly #seal: TokenSeal;
  readonly #ownerOf: (apiKey: string) => string;
  readonly #tokens = new Map<string, Known>();
  /** The token that was issued last for a text, which is issued again while it is known. */
  readonly #issued = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #found = new Map<string, string>();

  /** @param ownerOf returns what has a key, an organization */
  constructor(seal: TokenSeal, ownerOf: (apiKey: string) => string) {
    this.#seal = seal;
    this.#ownerOf = ownerOf;
  }

  /** Returns one token for one text, as long as it is known: a client that asks again displaces nothing. */
  seal(text: string): string {
    const token = this.#issued.get(text) ?? this.#seal.seal(text);
    this.#issued.set(text, token);
    this.#remember(token, text);
    return token;
  }

  open(token: string): string {
    const text = this.#tokens.get(token)?.text ?? this.#seal.open(token);
    this.#remember(token, text);
    return text;
  }

  /** Returns the content of the token that signed the URL, if this was found before. */
  findKnown(file: SignedFile): Access | undefined {
    const token = this.#found.get(nameOf(file));
    return token === undefined ? undefined : readAnyToken(token, this.#seal);
  }

  /**
   * Returns the content of the token that signed the URL; undefined if no known token did. Yields to other work.
   *
   * SECURITY: a signature is valid only for what it was made for: held by "a signed URL opens one file, to read or to
   * write, in time" in e2b-urls.test.ts.
   */
  async search(file: SignedFile): Promise<Access | undefined> {
    const { path, operation, user, expiration, signature } = file;
    const beginning = createHash('sha256').update(`${[path, operation, user].join(':')}:`);
    const end = expiration === undefined ? '' : `:${expiration}`;
    const slice = new TimeSlice();
    for (const token of [...this.#tokens.keys()].reverse()) {
      const digest = beginning.copy().update(token).update(end).digest('base64');
      if (signature === `v1_${digest.replace(/=+$/, '')}`) {
        this.#found.set(nameOf(file), token);
        forgetOldest(this.#found, FOUND);
        return readAnyToken(token, this.#seal);
      }
      if (slice.isOver) await slice.yieldIfOver();
    }
    return undefined;
  }

  #remember(token: string, text: string): void {
    const known = this.#tokens.get(token) ?? { text, owner: this.#ownerOf(keyIn(text)) };
    if (!this.#tokens.delete(token)) this.#counts.set(known.owner, (this.#counts.get(known.owner) ?? 0) + 1);
    this.#tokens.set(token, known);
    if (this.#tokens.size > TOKENS) this.#forgetOne();
  }

  /** Forgets the token of the organization with most tokens that was not used for longest. */
  #forgetOne(): void {
    let [most, count] = ['', 0];
    for (const [owner, has] of this.#counts) if (has > count) [most, count] = [owner, has];
    for (const [token, { text, owner }] of this.#tokens) {
      if (owner !== most) continue;
      this.#tokens.delete(token);
      if (this.#issued.get(text) === token) this.#issued.delete(text);
      if (count > 1) this.#counts.set(most, count - 1);
      else this.#counts.delete(most);
      return;
    }
  }
}

function nameOf({ signature, path, operation, user, expiration }: SignedFile): string {
  return JSON.stringify([signature, path, operation, user, expiration]);
}

/** Returns the key in the content of a token, which is sealed as a list. */
function keyIn(text: string): string {
  const [, apiKey] = JSON.parse(text) as [string, string];
  return apiKey;
}

function forgetOldest(map: Map<string, string>, most: number): void {
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
