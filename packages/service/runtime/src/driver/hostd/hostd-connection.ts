import { accepts, HOSTD_PROTOCOL_VERSION, HostdErrorBody, HostdHealth, type IsolationClaims } from '@cloche/protocol';
import type { Static, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { type Dispatcher, Pool } from 'undici';
import { isConnectionError } from '../../agent-client/agent-errors.ts';
import { readJson } from '../../agent-client/bounded-body.ts';
import { type RequestTracing, tracedRequest } from '../../tracing.ts';
import { AgentError, CaptureError, LaunchError, ParkingError } from '../runtime-driver.ts';

const health = Compile(HostdHealth);
const errorBody = Compile(HostdErrorBody);

/**
 * Time limit of a request that hostd answers at once. Only launches and stops take longer; hostd bounds its own steps.
 */
export const ASK_MS = 10_000;
/** Connections to hostd. Launches and stops are few and slow: more at once would only queue in the kernel. */
const CONNECTIONS = 32;
/** Largest response, a list of instances, uses or versions. Everything else is far smaller. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;

const ERROR_KINDS: ReadonlyMap<string, LaunchError['kind']> = new Map([
  ['template_not_found', 'template_not_found'],
  ['network_mode_unsupported', 'unsupported'],
  ['no_capacity', 'no_capacity'],
  // The next hostd is about to start.
  ['stopping', 'unreachable'],
]);

const CAPTURE_KINDS: ReadonlyMap<string, CaptureError['kind']> = new Map([
  ['capture_refused', 'refused'],
  ['instance_not_found', 'gone'],
  ['version_in_use', 'in_use'],
]);

const PARKING_KINDS: ReadonlyMap<string, ParkingError['kind']> = new Map([
  ['disk_not_found', 'not_found'],
  ['disk_in_use', 'in_use'],
  ['disk_broken', 'broken'],
  ['disk_unkeepable', 'unsupported'],
]);

type Health = Static<typeof HostdHealth>;
type Headers = Readonly<Record<string, string>>;
type Method = 'GET' | 'PUT' | 'POST' | 'DELETE';

/**
 * Connections to hostd. No request is sent before hostd has reported the version of its protocol. A closed connection
 * may mean that another hostd is starting, so the version is then read again.
 */
export class HostdConnection {
  readonly #pool: Pool;
  readonly #tracing: RequestTracing | undefined;
  /** Health of the hostd behind the open connections; undefined when it may have been replaced. */
  #health: Health | undefined;
  #claims: IsolationClaims | undefined;
  #canFreeze = false;
  #keepsDisks = false;

  /** @param socketPath `runPaths(runDir).hostdSocket` */
  constructor(socketPath: string, tracing?: RequestTracing) {
    this.#tracing = tracing;
    this.#pool = new Pool('http://hostd', {
      socketPath,
      connections: CONNECTIONS,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#pool.on('disconnect', () => {
      this.#health = undefined;
    });
  }

  /** The isolation claims in hostd's last health response. */
  get claims(): IsolationClaims | undefined {
    return this.#claims;
  }

  /** Whether hostd's last health response says that instances can be frozen. */
  get canFreeze(): boolean {
    return this.#canFreeze;
  }

  /** Whether hostd's last health response says that disks can outlive their instances. */
  get keepsDisks(): boolean {
    return this.#keepsDisks;
  }

  /** Returns the health that hostd reported last, or requests it. @throws LaunchError */
  async peer(signal: AbortSignal): Promise<Health> {
    return this.#health ?? (await this.askHealth(signal));
  }

  /** Requests the health of hostd. Accepts every version. @throws LaunchError `unreachable` */
  async askHealth(signal: AbortSignal): Promise<Health> {
    const asked = await readAnswer(await this.#send('GET', '/health', signal), health);
    this.#health = asked;
    this.#claims = asked.isolation;
    this.#canFreeze = asked.freeze ?? false;
    this.#keepsDisks = asked.keepsDisks ?? false;
    return asked;
  }

  /**
   * @throws LaunchError, CaptureError or ParkingError for every response but a success, `unreachable` without a response, and
   * `incompatible` without a request.
   */
  async request(
    method: Method,
    path: string,
    signal: AbortSignal,
    message?: object,
    headers?: Headers,
  ): Promise<Dispatcher.ResponseData> {
    requireAccepted(this.#health ?? (await this.askHealth(signal)));
    return this.#send(method, path, signal, message, headers);
  }

  /** Sends a request and returns the response's JSON, which must match `schema`. Throws as `request` does. */
  async ask<S extends TSchema>(
    schema: Validator<Record<never, never>, S>,
    method: Method,
    path: string,
    signal: AbortSignal,
    message?: object,
    headers?: Headers,
  ) {
    return readAnswer(await this.request(method, path, signal, message, headers), schema);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** Sends a request. Measures it as part of the client's request that it serves, if that is traced. */
  async #send(
    method: Method,
    path: string,
    signal: AbortSignal,
    message?: object,
    headers: Headers = {},
  ): Promise<Dispatcher.ResponseData> {
    if (!this.#tracing) return this.#exchange(method, path, signal, message, headers);
    return tracedRequest(this.#tracing, 'host', `${method} ${routeOf(path)}`, (span) =>
      this.#exchange(method, path, signal, message, { ...headers, ...(span && { traceparent: span.traceparent }) }),
    );
  }

  async #exchange(
    method: Method,
    path: string,
    signal: AbortSignal,
    message: object | undefined,
    headers: Headers,
  ): Promise<Dispatcher.ResponseData> {
    let response: Dispatcher.ResponseData;
    try {
      const json = message && { body: JSON.stringify(message) };
      const type = message && { 'content-type': 'application/json' };
      response = await this.#pool.request({ method, path, signal, ...json, headers: { ...headers, ...type } });
    } catch (error) {
      // An abort by the caller is passed on. A time limit of this driver means that hostd does not respond.
      if (signal.aborted && signal.reason?.name !== 'TimeoutError') throw signal.reason;
      throw new LaunchError('unreachable', whatFailed(error, signal), { cause: error });
    }
    if (response.statusCode < 300) return response;
    const { error } = await readAnswer(response, errorBody);
    const capture = CAPTURE_KINDS.get(error.code);
    if (capture) throw new CaptureError(capture, error.message);
    const parking = PARKING_KINDS.get(error.code);
    if (parking) throw new ParkingError(parking, error.message);
    throw new LaunchError(ERROR_KINDS.get(error.code) ?? 'failed', `${error.code}: ${error.message}`);
  }
}

/** Passes on an answer about an instance. Throws `AgentError` `gone` where hostd says that the instance is not alive. */
export async function asGone<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof CaptureError) || error.kind !== 'gone') throw error;
    throw new AgentError('gone', error.message, { cause: error });
  }
}

function whatFailed(error: unknown, { aborted }: AbortSignal): string {
  if (aborted) return 'hostd did not answer in time';
  return isConnectionError(error) ? 'hostd does not answer' : 'hostd sent an answer that is not HTTP';
}

/** Returns the path without its second and third segments, which are ids. */
function routeOf(path: string): string {
  const [, resource, , , action] = path.split('/');
  return action === undefined ? `/${resource}` : `/${resource}/${action}`;
}

/** @throws LaunchError `incompatible` */
export function requireAccepted({ protocolVersion }: Health): void {
  if (accepts(HOSTD_PROTOCOL_VERSION, protocolVersion)) return;
  const own = `${HOSTD_PROTOCOL_VERSION - 1} and ${HOSTD_PROTOCOL_VERSION}`;
  throw new LaunchError('incompatible', `hostd speaks protocol ${protocolVersion}, this server speaks ${own}`);
}

/** @throws LaunchError for a response that breaks off or does not match the protocol. */
async function readAnswer<S extends TSchema>(
  response: Dispatcher.ResponseData,
  schema: Validator<Record<never, never>, S>,
) {
  try {
    return await readJson(response.body, schema, MAX_BODY_BYTES);
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    throw new LaunchError('unreachable', `hostd sent an unreadable answer: ${what}`, { cause: error });
  }
}
