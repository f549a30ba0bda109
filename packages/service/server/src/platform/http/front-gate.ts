import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorCode } from '@cloche/contract';
import { GatewayError } from '@cloche/kit/gateway-error';
import { answerRefusal, type LeavingConnection, type Refusal } from '@cloche/node-support';
import { AppError } from '../base/app-error.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Credential } from '../keys/credential.ts';
import type { Callers } from './callers.ts';
import type { CheckKey } from './check-key.ts';
import { errorResponse } from './error-response.ts';
import type { Front } from './front.ts';
import type { HostRouter } from './host-router.ts';
import type { Outcome } from './outcome.ts';
import type { Outcomes } from './outcomes.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import { endStalled } from './stalled-body.ts';

/** Codes for the statuses of refusals that a protocol makes itself. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_request',
  401: 'unauthorized',
  403: 'forbidden',
  429: 'rate_limited',
};

/** A protocol beside `/v1`: its clients have keys of the API, in whatever form they send them. */
export interface ProtocolRouter extends HostRouter {
  /** Returns the name of the row of the table of fronts that a request belongs to. */
  frontOf(request: IncomingMessage): string;
  /**
   * Returns the API key that a request uses, without reading its body. Undefined if it needs none.
   *
   * @throws An error for `refusalOf` if the request has no key.
   */
  keyOf(request: IncomingMessage): string | undefined | Promise<string | undefined>;
  /** Returns the answer to a request that is refused, in the form that the protocol's clients read. */
  refusalOf(request: IncomingMessage, error: unknown): Refusal;
  close(): Promise<void>;
}

export interface FrontGateDeps {
  /** The table of fronts. */
  readonly fronts: Readonly<Record<string, Front>>;
  readonly checkKey: CheckKey;
  readonly callers: Callers;
  readonly ids: IdSource;
  readonly outcomes: Pick<Outcomes, 'note'>;
  /** Time without a byte after which a body that may take any time is abandoned. */
  readonly stallMs: number;
}

/**
 * Stands before the protocols beside `/v1`. Checks the key of each request before a router gets it, and so before any of
 * its body is read.
 */
export class FrontGate {
  readonly #deps: FrontGateDeps;

  constructor(deps: FrontGateDeps) {
    this.#deps = deps;
  }

  before(router: ProtocolRouter): HostRouter & { close(): Promise<void> } {
    return {
      close: () => router.close(),
      matches: (request) => router.matches(request),
      handle: (request, response) => this.#handle(router, request, response),
      ...(router.upgrade && {
        upgrade: (connection) => this.#upgrade(router, connection),
      }),
    };
  }

  async #handle(router: ProtocolRouter, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = router.frontOf(request);
    const refusal = await this.#check(router, name, request);
    if (refusal) return answerRefusal(response, refusal);
    // Some routers would not notice that the client has left.
    if (response.destroyed) return;
    if (this.#rowOf(name).body.seconds === 'stall') endStalled(request, response, this.#deps.stallMs);
    await router.handle(request, response);
  }

  async #upgrade(router: ProtocolRouter, connection: LeavingConnection): Promise<void> {
    const { request } = connection;
    const refusal = await this.#check(router, router.frontOf(request), request);
    if (refusal) connection.refuse(refusal);
    else await router.upgrade?.(connection);
  }

  #rowOf(name: string): Front {
    const front = this.#deps.fronts[name];
    if (!front) throw new Error(`the front ${name} has no row in the table of fronts`);
    return front;
  }

  /** Returns the refusal of a request, or undefined if its router may have it. */
  async #check(router: ProtocolRouter, name: string, request: IncomingMessage): Promise<Refusal | undefined> {
    const { checkKey, callers } = this.#deps;
    const startedAt = performance.now();
    const front = this.#rowOf(name);
    callers.introduce(request);
    let credential: Credential | undefined;
    try {
      const key = await router.keyOf(request);
      if (key !== undefined) {
        credential = await checkKey.check({ authorization: `Bearer ${key}` }, callers.addressOf(request));
      }
      requireSize(front, request);
      return undefined;
    } catch (error) {
      const refusal = router.refusalOf(request, error instanceof AppError ? gatewayError(error) : error);
      const noted = { operation: name, credential, durationMs: performance.now() - startedAt };
      return this.#noted(request, refusal, { ...noted, errorCode: codeOf(error) });
    }
  }

  /** Logs and counts a refusal, and returns it with the id of its request. */
  #noted(
    request: IncomingMessage,
    refusal: Refusal,
    outcome: Pick<Outcome, 'operation' | 'credential' | 'durationMs' | 'errorCode'>,
  ): Refusal {
    const { ids, outcomes } = this.#deps;
    const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
    const { method, url } = request;
    outcomes.note({ ...outcome, requestId, method, url, status: refusal.status });
    return { ...refusal, fields: { ...refusal.fields, [REQUEST_ID_HEADER]: requestId } };
  }
}

function requireSize({ body }: Front, { headers }: IncomingMessage): void {
  if (body.bytes === 'any' || !(Number(headers['content-length']) > body.bytes)) return;
  throw new AppError('payload_too_large', `The body is larger than the ${body.bytes} bytes that it may have.`);
}

function codeOf(error: unknown): ErrorCode {
  if (error instanceof AppError) return error.code;
  return CODES[(error as { status?: number }).status ?? 500] ?? 'internal';
}

function gatewayError(error: AppError): GatewayError {
  const { status, headers } = errorResponse(error, '');
  return new GatewayError(status, `${error.code}: ${error.message}`, headers);
}
