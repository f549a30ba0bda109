import { ClocheError } from './cloche-error.ts';

export const DEFAULT_URL = 'http://127.0.0.1:4680';

/** A `WebSocket` that takes headers, as those of Node, Bun and Deno do. */
export type WebSocketClass = new (url: string, options: { headers: Record<string, string> }) => WebSocket;

export interface ClientOptions {
  /** URL of the service. Default: `CLOCHE_URL`, then `http://127.0.0.1:4680`. */
  url?: string | undefined;
  /** Default: `CLOCHE_API_KEY`. */
  apiKey?: string | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Replaces the global `WebSocket`, which terminals need and Node before 22 lacks. Must send the headers that it is
   * given, as `WebSocket` of the package `ws` does.
   */
  webSocket?: WebSocketClass | undefined;
  /**
   * Milliseconds that one call may take with all its retries, in addition to the time limit of the operation itself
   * (such as a run's `timeoutMs`). Default: 60000.
   */
  timeoutMs?: number | undefined;
  /** Attempts after the first. Waiting for the outcome of a request in progress does not count. Default: 4. */
  maxRetries?: number | undefined;
  /** Milliseconds before the first retry; doubled for each further one, with jitter. Default: 100. */
  retryDelayMs?: number | undefined;
}

export interface ResolvedOptions {
  /** Has no trailing slash. */
  readonly url: string;
  readonly apiKey: string;
  readonly fetch: typeof globalThis.fetch;
  readonly webSocket: WebSocketClass | undefined;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly retryDelayMs: number;
}

/** @throws {ClocheError} `missing_api_key`, `invalid_options` */
export function resolveOptions(options: ClientOptions): ResolvedOptions {
  const env = environment();
  // Wrapped, because browsers throw if `fetch` is called as a method of another object.
  const fetchNow: typeof globalThis.fetch = (input, init) => globalThis.fetch(input, init);
  return {
    url: checkUrl(options.url ?? (env.CLOCHE_URL || DEFAULT_URL)),
    apiKey: checkApiKey(options.apiKey ?? env.CLOCHE_API_KEY),
    fetch: options.fetch ?? fetchNow,
    webSocket: options.webSocket ?? (globalThis.WebSocket as unknown as WebSocketClass | undefined),
    timeoutMs: options.timeoutMs ?? 60_000,
    maxRetries: options.maxRetries ?? 4,
    retryDelayMs: options.retryDelayMs ?? 100,
  };
}

function checkUrl(text: string): string {
  if (!/^https?:/i.test(text.trim()) || !URL.canParse(text)) {
    throw new ClocheError('invalid_options', `"${text}" is not an HTTP address; give one such as ${DEFAULT_URL}.`);
  }
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname}`.replace(/\/+$/, '');
}

function checkApiKey(given: string | undefined): string {
  const apiKey = given?.trim();
  if (!apiKey) {
    const message = 'No API key was given; pass `apiKey`, or set CLOCHE_API_KEY to the key of your installation.';
    throw new ClocheError('missing_api_key', message);
  }
  // Checked here, because `fetch` would report an invalid header with the key in its message.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new ClocheError('invalid_options', 'The API key has white space or other than ASCII in it; copy it again.');
  }
  return apiKey;
}

/** Returns the environment variables; none in a browser. */
function environment(): Record<string, string | undefined> {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env ?? {};
}
