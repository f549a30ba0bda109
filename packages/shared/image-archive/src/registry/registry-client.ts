import { setTimeout as pause } from 'node:timers/promises';
import type { ImagePull } from '@cloche/protocol';
import { ImageError } from '../read/image-error.ts';
import { type Challenge, readChallenge } from './challenge.ts';
import { isFinal, refusalOf, unreachable } from './explain-failure.ts';
import { RegistryReply } from './registry-reply.ts';

const MAX_REDIRECTS = 5;
const MAX_TOKEN_BYTES = 64 * 1024;
const TRANSIENT = new Set([408, 429, 500, 502, 503, 504]);
/** Host of the API of Docker Hub, whose images have another name. */
const API_HOSTS: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };

export interface RegistryTimes {
  /** Pause before the first repetition; each further one is twice as long. */
  readonly pauseMs: number;
  /** Longest pause that a registry can ask for. */
  readonly longestPauseMs: number;
  readonly attempts: number;
  /** Longest time until an answer begins, and without a byte of its body. */
  readonly idleMs: number;
}
const TIMES: RegistryTimes = { pauseMs: 1000, longestPauseMs: 30_000, attempts: 4, idleMs: 60_000 };

export interface RegistryRequest {
  readonly method?: 'GET' | 'HEAD';
  readonly fields?: Readonly<Record<string, string>>;
}

/** Reads from one repository of a registry, by the OCI distribution specification. */
export class RegistryClient {
  readonly times: RegistryTimes;
  readonly #image: ImagePull;
  readonly #password: string | undefined;
  readonly #base: URL;
  readonly #closed = new AbortController();
  /** Value of `Authorization`, for the registry alone. */
  #authorization: string | undefined;

  /** @param password what stands for the password of `image.username` */
  constructor(image: ImagePull, password?: string, times: Partial<RegistryTimes> = {}) {
    this.#image = image;
    this.#password = password;
    this.times = { ...TIMES, ...times };
    this.#base = new URL(`https://${API_HOSTS[image.registry] ?? image.registry}/v2/${image.repository}/`);
  }

  /** Name of the image without a tag, for messages. */
  get name(): string {
    return `${this.#image.registry}/${this.#image.repository}`;
  }

  /** Ends all requests, and refuses further ones. */
  close(): void {
    this.#closed.abort();
  }

  /**
   * Sends a request below the repository. Repeats it after a fault that may pass, signs in where the registry asks for
   * it, and follows redirections.
   *
   * @throws {ImageError} for an answer that is neither 2xx nor 416, or if there is none
   */
  async request(path: string, request: RegistryRequest = {}): Promise<RegistryReply> {
    const url = new URL(path, this.#base);
    let reply = await this.#send(url, request);
    if (reply.status === 401 && (await this.#signIn(reply))) {
      reply.close();
      reply = await this.#send(url, request);
    }
    if ((reply.status >= 200 && reply.status < 300) || reply.status === 416) return reply;
    throw await refusalOf(reply, { image: this.name, hasAccount: this.#image.username !== undefined });
  }

  /** Takes the credentials that a refusal asks for. Returns false where the registry would refuse these again. */
  async #signIn({ headers }: RegistryReply): Promise<boolean> {
    // Another request may sign in meanwhile.
    const before = this.#authorization;
    const challenge = readChallenge(headers.get('www-authenticate'));
    const next = challenge && (await this.#authorize(challenge));
    // A token may have expired, unlike a password.
    if (next === undefined || (challenge?.scheme === 'basic' && next === before)) return false;
    this.#authorization = next;
    return true;
  }

  async #authorize(challenge: Challenge): Promise<string | undefined> {
    const { username, repository } = this.#image;
    const basic =
      username === undefined
        ? undefined
        : `Basic ${Buffer.from(`${username}:${this.#password ?? ''}`).toString('base64')}`;
    if (challenge.scheme === 'basic') return basic;
    const url = httpsUrl(challenge.realm, this.#base, 'asks for a token of');
    if (challenge.service !== undefined) url.searchParams.set('service', challenge.service);
    url.searchParams.set('scope', `repository:${repository}:pull`);
    const reply = await this.#attempts(url, { fields: { accept: 'application/json', ...authorizationOf(basic) } });
    if (reply.status !== 200) throw await refusalOf(reply, { image: this.name, hasAccount: username !== undefined });
    return `Bearer ${tokenOf(await reply.bytes(MAX_TOKEN_BYTES), url)}`;
  }

  /** Follows redirections. Only the registry itself gets the authorization. */
  async #send(url: URL, { method = 'GET', fields }: RegistryRequest): Promise<RegistryReply> {
    let at = url;
    for (let redirects = 0; ; redirects += 1) {
      const authorization = at.origin === this.#base.origin ? authorizationOf(this.#authorization) : {};
      const reply = await this.#attempts(at, { method, fields: { ...fields, ...authorization } });
      const location = reply.headers.get('location');
      if (reply.status < 300 || reply.status >= 400 || location === null) return reply;
      reply.close();
      if (redirects === MAX_REDIRECTS)
        throw new ImageError(`The registry of ${this.name} redirects more than ${MAX_REDIRECTS} times.`);
      at = httpsUrl(location, at, 'redirects to');
    }
  }

  /** Sends one request, again after a fault that may pass. */
  async #attempts(url: URL, { method = 'GET', fields = {} }: RegistryRequest): Promise<RegistryReply> {
    const { attempts, pauseMs, longestPauseMs, idleMs } = this.times;
    const closed = this.#closed.signal;
    for (let attempt = 1; ; attempt += 1) {
      const abort = new AbortController();
      const timer = setTimeout(() => abort.abort(), idleMs);
      const isLast = attempt >= attempts;
      let waitMs = pauseMs * 2 ** (attempt - 1);
      try {
        const headers = { 'accept-encoding': 'identity', 'user-agent': 'cloche', ...fields };
        const signal = AbortSignal.any([abort.signal, closed]);
        const response = await fetch(url, { method, headers, redirect: 'manual', signal });
        const reply = new RegistryReply(response, url, abort, idleMs);
        if (isLast || !TRANSIENT.has(response.status)) return reply;
        const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
        if (seconds >= 0) waitMs = seconds * 1000;
        reply.close();
      } catch (error) {
        if (isLast || closed.aborted || isFinal(error)) throw unreachable(error, url);
      } finally {
        clearTimeout(timer);
      }
      await pause(Math.min(waitMs, longestPauseMs), undefined, { signal: closed });
    }
  }
}

function authorizationOf(value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { authorization: value };
}

/** @throws {ImageError} for anything but HTTPS without a user. */
function httpsUrl(text: string, base: URL, what: string): URL {
  const url = URL.canParse(text, base) ? new URL(text, base) : undefined;
  if (url?.protocol === 'https:' && url.username === '' && url.password === '') return url;
  throw new ImageError(
    `The registry ${base.host} ${what} ${JSON.stringify(text.slice(0, 200))}, which is no HTTPS URL.`,
  );
}

function tokenOf(bytes: Buffer, url: URL): string {
  let parsed: { token?: unknown; access_token?: unknown } | null = null;
  try {
    parsed = JSON.parse(bytes.toString());
  } catch {
    // It has no token then.
  }
  const token = parsed?.token ?? parsed?.access_token;
  if (typeof token === 'string' && /^[\x21-\x7e]{1,32768}$/.test(token)) return token;
  throw new ImageError(`${url.host} issues no valid token for the image.`);
}
