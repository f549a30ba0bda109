import type { IncomingMessage } from 'node:http';
import { GatewayError } from '@cloche/kit';
import { KeyedQueue } from '@cloche/node-support';
import type { Access } from '../access-token.ts';
import { FailureLimit } from '../failure-limit.ts';
import type { KnownTokens, SignedFile } from '../known-tokens.ts';
import { userOf } from './box-session.ts';

const SECOND_MS = 1000;
/** A SHA-256 in base64 without padding, as the clients write it. */
const SIGNATURE = /^v1_[A-Za-z0-9+/]{43}$/;
/** Longest path and time in a URL. The kernel knows no longer path. */
const PATH_CHARACTERS = 4096;
const TIME_CHARACTERS = 16;

const SEARCH = 'search';
/** E2B's clients compare this text. */
const EXPIRED = 'signature is already expired';

/** The file and the access that a URL grants. */
export interface SignedAccess {
  readonly access: Access;
  readonly path: string;
  readonly user: string;
}

/** Checks the URLs of `uploadUrl` and `downloadUrl`, which clients sign with the token of a sandbox. */
export class SignedUrls {
  readonly #tokens: KnownTokens;
  readonly #limit = new FailureLimit();
  readonly #searches = new KeyedQueue<typeof SEARCH>();
  readonly #opened = new WeakMap<IncomingMessage, SignedAccess>();

  constructor(tokens: KnownTokens) {
    this.#tokens = tokens;
  }

  /** Returns what `open` has found for a request. */
  opened(request: IncomingMessage): SignedAccess {
    const opened = this.find(request);
    if (!opened) throw refused('The URL has not been checked.');
    return opened;
  }

  find(request: IncomingMessage): SignedAccess | undefined {
    return this.#opened.get(request);
  }

  /**
   * Finds the sandbox of a URL. Wrong signatures cost a search, so an address may send a few of them; signatures that
   * were found before are never limited.
   *
   * @throws GatewayError 401, 429
   */
  async open(request: IncomingMessage, address: string): Promise<Access> {
    const file = signedFile(request);
    const access = this.#tokens.findKnown(file) ?? (await this.#search(file, address));
    const named = request.headers['e2b-sandbox-id'];
    if (named !== undefined && named !== access.sandboxId) throw refused('The signature is of another sandbox.');
    this.#opened.set(request, { access, path: file.path, user: file.user });
    return access;
  }

  /** Searches run one after another, so that those that wait are refused once too many have failed. */
  #search(file: SignedFile, address: string): Promise<Access> {
    return this.#searches.run(SEARCH, () => this.#searchNow(file, address));
  }

  async #searchNow(file: SignedFile, address: string): Promise<Access> {
    const waitMs = this.#limit.waitMs(address);
    if (waitMs > 0) {
      const seconds = String(Math.ceil(waitMs / SECOND_MS));
      throw new GatewayError(429, 'Too many URLs had a wrong signature; try again later.', { 'retry-after': seconds });
    }
    const access = this.#tokens.findKnown(file) ?? (await this.#tokens.search(file));
    if (access) return access;
    this.#limit.failed(address);
    throw refused('The signature fits no sandbox that runs: make the URL again with uploadUrl or downloadUrl.');
  }
}

/** Returns whether a request has a signature in place of a token. */
export function isSigned({ url = '', headers }: IncomingMessage): boolean {
  return headers['x-access-token'] === undefined && new URLSearchParams(url.split('?', 2)[1]).has('signature');
}

/** @throws GatewayError 401 */
function signedFile({ url = '', method }: IncomingMessage): SignedFile {
  const query = new URLSearchParams(url.split('?', 2)[1]);
  const [path, user, signature] = ['path', 'username', 'signature'].map((name) => query.get(name) ?? '') as [
    string,
    string,
    string,
  ];
  const expiration = query.get('signature_expiration') ?? undefined;
  if (!SIGNATURE.test(signature)) throw refused('The URL has no signature: make it with uploadUrl or downloadUrl.');
  if (path.length > PATH_CHARACTERS || (expiration?.length ?? 0) > TIME_CHARACTERS) {
    throw refused('The path of the URL is too long.');
  }
  if (expiration !== undefined && !(Number(expiration) * SECOND_MS > Date.now())) {
    throw refused(EXPIRED);
  }
  userOf(user);
  return { path, user, signature, expiration, operation: method === 'POST' ? 'write' : 'read' };
}

function refused(message: string): GatewayError {
  return new GatewayError(401, message);
}
