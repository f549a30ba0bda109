import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fieldPairs, joinPieces, type RawFields } from '@cloche/node-support';
import { hostText } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';
import { mayHaveSecrets, type PlacedSecrets, placeSecrets } from '../secrets/placed-secrets.ts';
import type { Target } from '../upstream/connector.ts';
import { EgressError, type EgressFailure } from '../upstream/egress-error.ts';
import type { UpstreamRequest } from '../upstream/upstream-agent.ts';
import { assertAcceptable } from './acceptable-answer.ts';
import { type Exchange, refusalBody } from './exchange.ts';
import { endToEndFields } from './fields.ts';
import { collectYoungBuffers } from './young-buffers.ts';

/** Longest silence of a server that computes its response, or of a client that reads it slowly. */
export const IDLE_MS = 10 * 60 * 1000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Most interim answers of a server before its answer. Each is parsed by the thread that all sandboxes share. */
const MAX_INTERIM = 8;
/** HTTP status codes by failure. Every other failure has 502. */
const STATUSES: Partial<Record<EgressFailure | 'broken_off', number>> = { timeout: 504, busy: 503, secrets: 503 };
const NO_BYTES = { bytesUp: 0, bytesDown: 0 };

export interface Permitted {
  target: Target;
  path: string;
  hostField: string;
}

export interface Forwarded {
  /** Undefined if there was no response. */
  status?: number;
  failure?: EgressFailure | 'broken_off';
  bytesUp: number;
  bytesDown: number;
}

/** Sends the request to the server and streams the response back. Never rejects: the client gets an error response. */
export async function forward(exchange: Exchange, permitted: Permitted, traffic: SandboxTraffic): Promise<Forwarded> {
  const { target, path, hostField } = permitted;
  let sent: SentRequest | undefined;
  let isAbandoned = false;
  exchange.onAbandoned(() => {
    isAbandoned = true;
    sent?.request.destroy();
  });
  let status: number | undefined;
  try {
    const placed = needsSecrets(exchange.fields, target) && (await place(exchange.fields, target, traffic));
    if (isAbandoned) return { failure: 'broken_off', ...NO_BYTES };
    const fields = ['Host', hostField, ...(placed ? placed.fields : exchange.fields), ...framing(exchange)];
    const attempt = () => sendRequest({ traffic, target, method: exchange.method, path, fields });
    sent = attempt();
    if (exchange.body) {
      exchange.sendContinue?.();
      collectYoungBuffers(exchange.body).pipe(sent.request);
    } else sent.request.end();
    let answer = await sent.answer.catch((error) => error);
    if (wasClosedWhileIdle(answer, sent.request) && isRepeatable(exchange)) {
      sent = attempt();
      sent.request.end();
      answer = await sent.answer;
    }
    if (answer instanceof Error) throw answer;
    status = await sendResponse(answer, exchange, placed ? placed.hide : undefined);
    return { status, ...sent.bytes() };
  } catch (error) {
    sent?.request.destroy();
    const failure = error instanceof EgressError ? error.reason : 'broken_off';
    refuseFailed(exchange, hostText(target.host), failure);
    return { ...(status !== undefined && { status }), failure, ...(sent?.bytes() ?? NO_BYTES) };
  }
}

/** Returns whether secrets may have to be placed: only over TLS, and only in requests with placeholders. */
export function needsSecrets(fields: RawFields, { isSecure }: Target): boolean {
  return isSecure && mayHaveSecrets(fields);
}

/** Places the secrets of a sandbox in the fields of a request. Rejects with an `EgressError`. */
export function place(fields: RawFields, { host }: Target, { secrets }: SandboxTraffic): Promise<PlacedSecrets> {
  return placeSecrets(fields, host, secrets);
}

export interface SentRequest {
  request: ClientRequest;
  answer: Promise<IncomingMessage>;
  /** Bytes that the connection carried for this request. */
  bytes(): { bytesUp: number; bytesDown: number };
}

export function sendRequest(options: {
  traffic: Pick<SandboxTraffic, 'agent' | 'pieces'>;
  target: Target;
  method: string;
  path: string;
  fields: string[];
  /** Receives the connection when the server switches protocols. Otherwise such an answer is an error. */
  onUpgrade?: (answer: IncomingMessage, server: Duplex, head: Buffer) => void;
}): SentRequest {
  const { traffic, target, method, path, fields, onUpgrade } = options;
  const { agent, pieces } = traffic;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const upstream: UpstreamRequest = {
    agent,
    target,
    method,
    path,
    headers: fields,
    setHost: false,
    timeout: IDLE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  };
  const sent = request(upstream);
  let counted: { socket: Socket; up: number; down: number } | undefined;
  sent.on('socket', (socket) => {
    counted = { socket, up: socket.bytesWritten, down: socket.bytesRead };
  });
  let interim = 0;
  sent.on('information', () => {
    interim += 1;
    if (interim > MAX_INTERIM)
      sent.destroy(new EgressError('bad_response', 'the server sent too many interim answers'));
  });
  sent.on('response', (answer) => {
    joinPieces(answer, pieces);
    resolve(answer);
  });
  // Without a listener, Node closes the connection and the request never ends.
  sent.once('upgrade', (answer, server, head) => {
    if (onUpgrade) return onUpgrade(answer, server, head);
    server.destroy();
    reject(new EgressError('bad_response', 'the server switched protocols without being asked'));
  });
  sent.on('error', reject);
  sent.on('timeout', () => sent.destroy(new EgressError('timeout', 'the server sent nothing in time')));
  return {
    request: sent,
    answer: promise,
    bytes: () =>
      counted === undefined
        ? NO_BYTES
        : { bytesUp: counted.socket.bytesWritten - counted.up, bytesDown: counted.socket.bytesRead - counted.down },
  };
}

/** Returns the framing fields. A declared length is passed on; a body without one is sent in chunks. */
function framing({ body, fields, method }: Exchange): string[] {
  const isDeclared = fieldPairs(fields).some(([name]) => name.toLowerCase() === 'content-length');
  if (body) return isDeclared ? [] : ['Transfer-Encoding', 'chunked'];
  return isDeclared || !['POST', 'PUT', 'PATCH'].includes(method) ? [] : ['Content-Length', '0'];
}

async function sendResponse(
  answer: IncomingMessage,
  exchange: Exchange,
  hide: (text: string) => string = (text) => text,
): Promise<number> {
  assertAcceptable(answer);
  const { statusCode: status = 502, statusMessage = '', rawHeaders } = answer;
  // `Alt-Svc` offers HTTP/3, which would bypass egress.
  const out = exchange.answer(status, hide(statusMessage), endToEndFields(rawHeaders, 'alt-svc').map(hide));
  if (out) await pipeline(collectYoungBuffers(answer), out);
  else answer.resume();
  return status;
}

/** Returns whether a server closed a kept-alive connection just as it was reused. The server did nothing then. */
function wasClosedWhileIdle(answer: unknown, sent: ClientRequest): boolean {
  return answer instanceof Error && 'code' in answer && answer.code === 'ECONNRESET' && sent.reusedSocket;
}

/** Returns whether a request may be sent again, even if the server could have received it before. */
function isRepeatable({ method, body }: Exchange): boolean {
  return !body && ['GET', 'HEAD', 'OPTIONS'].includes(method);
}

export function refuseFailed(exchange: Pick<Exchange, 'refuse'>, host: string, failure: EgressFailure | 'broken_off') {
  if (failure === 'denied') exchange.refuse(403, refusalBody('egress_denied', host, 'address'));
  else exchange.refuse(STATUSES[failure] ?? 502, refusalBody('egress_failed', host, failure));
}
