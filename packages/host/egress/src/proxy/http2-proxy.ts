import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { fieldPairs, joinPieces, type RawFields } from '@cloche/node-support';
import type { DecisionLog } from '../decisions/decision-log.ts';
import type { Connection } from './connection.ts';
import type { Exchange } from './exchange.ts';
import { endToEndFields } from './fields.ts';
import { forward } from './forward.ts';
import { guard } from './guard.ts';
import { recorder, refuseDecided } from './outcome.ts';
import { type Decision, decideRequest } from './request-target.ts';

const IDLE_MS = 10 * 60 * 1000;
/** Units of the sandbox's turn budget that a stream costs: Node takes about 30 microseconds to create one. */
const STREAM_COST = 30;
const SESSION_LIMITS = {
  /** Streams that a client may open and reset: in a burst, and per second. More end the session. */
  streamResetBurst: 200,
  streamResetRate: 50,
  /** In MB. Received bodies do not count, so streams and windows are limited too. */
  maxSessionMemory: 2,
  /** The window limits the bytes of an upload that are received before the server reads, or while the request waits. */
  settings: { maxConcurrentStreams: 100, initialWindowSize: 64 * 1024, maxHeaderListSize: 64 * 1024 },
} as const;

/** Proxies the HTTP/2 of clients inside TLS. Servers get HTTP/1.1 requests. */
export class Http2Proxy {
  readonly #decisions: DecisionLog;
  readonly #sessions = new Set<ServerHttp2Session>();

  constructor(decisions: DecisionLog) {
    this.#decisions = decisions;
  }

  serve(socket: TLSSocket, connection: Connection): void {
    const session = performServerHandshake(socket, SESSION_LIMITS);
    this.#sessions.add(session);
    session.once('close', () => this.#sessions.delete(session));
    session.on('error', () => session.destroy());
    // When the client ends only its side of the connection, Node does not end the session.
    socket.once('end', () => session.destroy());
    session.setTimeout(IDLE_MS, () => session.destroy());
    session.on('stream', (stream, headers) => {
      const { sandboxId } = connection.traffic;
      guard(this.#decisions, sandboxId, this.#onStream(stream, headers, connection), () => stream.destroy());
    });
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  async #onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: Connection): Promise<void> {
    // A reset by the client is not an error of egress. The stream closes anyway.
    stream.on('error', () => {});
    const { pieces } = connection.traffic;
    pieces.charge(STREAM_COST);
    joinPieces(stream, pieces);
    if (!connection.traffic.mayWait) return stream.close(constants.NGHTTP2_REFUSED_STREAM);
    using place = await connection.traffic.begin(connection.client, stream);
    if (!place || stream.closed) return;
    const exchange = http2Exchange(stream, headers);
    const record = recorder(this.#decisions, connection, 'https', performance.now());
    const decision = decide(connection, headers);
    if (decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => exchange.refuse(status, body));
      return record(decision);
    }
    record(decision, await forward(exchange, decision, connection.traffic));
  }
}

function decide(connection: Connection, headers: IncomingHttpHeaders): Decision {
  const { ':authority': authority, ':scheme': scheme, ':path': path = '', ':method': method, host } = headers;
  const hosts = [authority, host].filter((text) => text !== undefined);
  if (scheme !== 'https' || method === 'CONNECT' || hosts.length === 0 || /^https?:/i.test(path)) {
    return { verdict: 'malformed', reason: 'request_target', host: hosts.join(' ') };
  }
  return decideRequest(connection, { url: path, hosts });
}

function http2Exchange(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Exchange {
  const method = headers[':method'] ?? '';
  return {
    method,
    fields: endToEndFields(flat(headers), 'host', 'expect'),
    body: stream.endAfterHeaders ? undefined : stream,
    answer(status, _message, fields) {
      const endStream = method === 'HEAD' || status === 204 || status === 205 || status === 304;
      stream.respond({ ...joined(fields), ':status': status }, { endStream });
      return endStream ? undefined : stream;
    },
    onAbandoned(callback) {
      stream.once('close', () => {
        if (stream.rstCode !== constants.NGHTTP2_NO_ERROR || !stream.writableFinished) callback();
      });
    },
    refuse(status, body) {
      if (stream.headersSent) return stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      if (stream.closed) return;
      stream.respond({ ':status': status, 'content-type': 'application/json' });
      stream.end(body);
    },
  };
}

function flat(headers: IncomingHttpHeaders): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (name.startsWith(':') || value === undefined) return [];
    return [value].flat().flatMap((one) => [name, one]);
  });
}

/** Joins fields of the same name into one with several values. */
function joined(fields: RawFields): OutgoingHttpHeaders {
  const byName = Map.groupBy(fieldPairs(fields), ([name]) => name.toLowerCase());
  return Object.fromEntries(byName.entries().map(([name, same]) => [name, same.map(([, value]) => value)]));
}
