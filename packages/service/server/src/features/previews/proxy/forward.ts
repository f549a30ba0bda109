/** Forwards a request through a tunnel to the app, and returns its response. */
import {
  type ClientRequest,
  type IncomingMessage,
  request as openRequest,
  type ServerResponse,
  validateHeaderValue,
} from 'node:http';
import { type Duplex, pipeline } from 'node:stream';
import { finished } from 'node:stream/promises';
import { LIMITS } from '@cloche/contract';
import { endPacing, hasBody, joinPieces, onAbort, orAbort, paceChunks } from '@cloche/node-support';
import type { Exchange } from './exchange-registry.ts';
import { responseFields } from './fields.ts';
import { PreviewError } from './preview-error.ts';

/** When one side of a WebSocket has ended, how long the other may continue. */
const LINGER_MS = 1_000;
/** Interim answers of an app, such as early hints, that are read before its answer. */
const MAX_INTERIM = 8;
/** Units of the budget of pieces that an exchange costs: its answer is read, and its header fields are copied. */
const EXCHANGE_COST = 32;

export interface Forwarding {
  readonly request: IncomingMessage;
  /** Path and query that the app gets. */
  readonly target: string;
  /** The header fields that the app gets. */
  readonly fields: readonly string[];
  readonly tunnel: Duplex;
  readonly exchange: Exchange;
  readonly isPrivate: boolean;
  /** Name of the token's cookie. A cookie of this name from the app is removed. */
  readonly tokenCookie: string;
}

/**
 * Resolves when the response was sent completely or the client has disconnected. A tunnel carries only one exchange, so
 * leftover data of an app never reaches another client.
 *
 * @throws PreviewError before the response has begun; after that, its connection is closed instead.
 */
export async function forward(forwarding: Forwarding, response: ServerResponse): Promise<void> {
  const { request, exchange } = forwarding;
  await exchange.pieces.next(EXCHANGE_COST);
  const sent = send(forwarding, bodyFraming(request));
  const leave = () => sent.destroy();
  response.once('close', leave);
  try {
    const answer = await answerOf(sent, exchange.signal, sendBody(request, sent, exchange));
    await deliver(answer, response, forwarding);
  } catch (error) {
    if (!response.destroyed) throw toPreviewError(error);
  } finally {
    response.off('close', leave);
    sent.destroy();
  }
}

/** Streams the response with backpressure. An error after its start closes the connection. */
export async function deliver(
  answer: IncomingMessage,
  response: ServerResponse,
  forwarding: Forwarding,
): Promise<void> {
  const { exchange } = forwarding;
  writeHead(response, answer, forwarding);
  answer.on('data', () => exchange.touch());
  answer.pipe(response);
  try {
    await finished(answer, { signal: exchange.signal });
    await finished(response, { signal: exchange.signal });
  } catch {
    response.destroy();
  }
}

/** The app's answer to an upgrade request: an upgraded connection, or any other response. */
export type UpgradeAnswer =
  | { readonly kind: 'switched'; readonly head: string; readonly stream: Duplex }
  | { readonly kind: 'answered'; readonly answer: IncomingMessage };

/** @throws PreviewError */
export async function forwardUpgrade(forwarding: Forwarding): Promise<UpgradeAnswer> {
  const { request, exchange } = forwarding;
  await exchange.pieces.next(EXCHANGE_COST);
  const sent = send(forwarding, ['Connection', 'Upgrade', 'Upgrade', request.headers.upgrade ?? '']);
  const switched = Promise.withResolvers<UpgradeAnswer>();
  sent.once('upgrade', (answer, stream, head) => {
    if (head.length > 0) stream.unshift(head);
    try {
      switched.resolve({ kind: 'switched', head: switchingHead(answer, forwarding), stream });
    } catch (error) {
      switched.reject(error);
    }
  });
  sent.end();
  const answered = answerOf(sent, exchange.signal).then((answer): UpgradeAnswer => ({ kind: 'answered', answer }));
  try {
    return await Promise.race([switched.promise, answered]);
  } catch (error) {
    throw toPreviewError(error);
  }
}

/** Copies bytes in both directions until one side ends; resolves when both are closed. */
export async function join(one: Duplex, other: Duplex, exchange: Exchange): Promise<void> {
  const touch = () => exchange.touch();
  one.on('data', touch);
  other.on('data', touch);
  const closed = [one, other].map((stream) => {
    if (stream.closed) return Promise.resolve();
    return new Promise<void>((resolve) => stream.once('close', () => resolve()));
  });
  const end = () => {
    one.destroy();
    other.destroy();
  };
  using _ = onAbort(exchange.signal, end);
  // When one side has ended, the other gets a short time to deliver data in flight.
  let lingering: NodeJS.Timeout | undefined;
  const linger = () => {
    lingering ??= setTimeout(end, LINGER_MS);
  };
  one.once('end', linger);
  other.once('end', linger);
  const isOver = () => undefined;
  pipeline(one, other, isOver);
  pipeline(other, one, isOver);
  await Promise.all(closed);
  clearTimeout(lingering);
  exchange.signal.removeEventListener('abort', end);
}

function writeHead(response: ServerResponse, answer: IncomingMessage, forwarding: Forwarding): void {
  const { statusCode = 0, statusMessage = '' } = answer;
  if (statusCode < 200 || statusCode > 599) throw noHttp();
  try {
    response.writeHead(statusCode, statusMessage, responseFields({ ...forwarding, raw: answer.rawHeaders }));
  } catch (error) {
    // Node.js accepts some fields when parsing that it refuses to write.
    throw noHttp(error);
  }
}

function send({ request, target, fields, tunnel, exchange }: Forwarding, framing: readonly string[]): ClientRequest {
  paceChunks(tunnel, exchange.pieces);
  const sent = openRequest({
    createConnection: () => tunnel,
    method: request.method,
    path: target,
    headers: [...fields, ...framing],
    maxHeaderSize: LIMITS.headerBytes,
    setDefaultHeaders: false,
  });
  let interim = 0;
  sent.on('information', () => {
    interim += 1;
    if (interim > MAX_INTERIM) sent.destroy(new Error(`the app sent more than ${MAX_INTERIM} interim answers`));
  });
  sent.once('upgrade', () => endPacing(tunnel));
  sent.once('response', (answer) => {
    if (answer.headers['transfer-encoding'] !== undefined) joinPieces(answer, exchange.pieces);
  });
  return sent;
}

/** Keeps the request's framing, so that both ends agree where the body ends. Content-Length is among `fields`. */
function bodyFraming({ headers }: IncomingMessage): string[] {
  const chunked = headers['transfer-encoding'] === undefined ? [] : ['Transfer-Encoding', 'chunked'];
  return ['Connection', 'close', ...chunked];
}

/** Sends the body. Rejects when the client aborts it, but not when the app stops reading. */
function sendBody(request: IncomingMessage, sent: ClientRequest, exchange: Exchange): Promise<never> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  if (!hasBody(request.headers)) {
    sent.end();
    return broken.promise;
  }
  request.on('data', () => exchange.touch());
  request.pipe(sent);
  request.once('error', broken.reject);
  return broken.promise;
}

async function answerOf(sent: ClientRequest, signal: AbortSignal, broken?: Promise<never>): Promise<IncomingMessage> {
  const answered = Promise.withResolvers<IncomingMessage>();
  sent.once('response', answered.resolve);
  sent.on('error', answered.reject);
  sent.once('close', () => answered.reject(new Error('closed')));
  try {
    return await orAbort(Promise.race(broken ? [answered.promise, broken] : [answered.promise]), signal);
  } catch (error) {
    sent.destroy();
    throw error;
  }
}

function switchingHead(answer: IncomingMessage, forwarding: Forwarding): string {
  const fields = responseFields({ ...forwarding, raw: answer.rawHeaders });
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', `Upgrade: ${answer.headers.upgrade}`];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    validateHeaderValue(fields[at] ?? '', fields[at + 1] ?? '');
    lines.push(`${fields[at]}: ${fields[at + 1]}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function toPreviewError(error: unknown): PreviewError {
  return error instanceof PreviewError ? error : noHttp(error);
}

function noHttp(cause?: unknown): PreviewError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const message = code.startsWith('HPE_')
    ? 'The program on the port inside the sandbox does not speak HTTP.'
    : 'The program on the port inside the sandbox closed the connection without an HTTP response.';
  return new PreviewError('preview_no_http', message, { cause });
}
