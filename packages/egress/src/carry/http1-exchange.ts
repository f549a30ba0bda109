import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Exchange } from './exchange.ts';
import { endToEndFields } from './fields.ts';

export type Http1Exchange = Exchange & { readonly hosts: readonly string[]; readonly url: string };

/** A field costs a microsecond or two; servers take 100 to 2,000. */
const MAX_FIELDS = 1000;

/** Whether a request is refused for its fields alone. */
export function hasTooManyFields({ rawHeaders }: IncomingMessage): boolean {
  return rawHeaders.length > 2 * MAX_FIELDS;
}

/** Undefined for a body that is coded in a way that only the next hop could undo. */
export function http1Exchange(
  request: IncomingMessage,
  response: ServerResponse,
  askForBody?: () => void,
): Http1Exchange | undefined {
  const codings = request.headersDistinct['transfer-encoding'];
  if (codings && codings.join().toLowerCase() !== 'chunked') return undefined;
  const length = request.headers['content-length'];
  const hasBody = codings !== undefined || (length !== undefined && Number(length) > 0);
  // The server adds nothing of its own to what it passes on.
  response.sendDate = false;
  return {
    method: request.method ?? '',
    url: request.url ?? '',
    hosts: request.headersDistinct.host ?? [],
    fields: endToEndFields(request.rawHeaders, 'host', 'expect'),
    body: hasBody ? request : undefined,
    ...(askForBody && { askForBody }),
    answer(status, message, fields) {
      response.writeHead(status, message, [...fields]);
      return response;
    },
    onAbandoned: (callback) => onAbandoned(response, callback),
    refuse(status, body) {
      if (response.headersSent) response.destroy();
      else refuseHttp1(response, status, body);
    },
  };
}

/** Ends the connection as well: what follows on it may be what the refused request hid. */
export function refuseHttp1(response: ServerResponse, status: number, body: string): void {
  // Named, else it would be what a server called an answer that could not be passed on.
  response.writeHead(status, STATUS_CODES[status] ?? '', {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}

/** Node hands the socket of an upgrade over bare. */
export function responseOn(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.once('finish', () => socket.end());
  return response;
}

function onAbandoned(response: ServerResponse, callback: () => void): void {
  response.once('close', () => {
    if (!response.writableFinished) callback();
  });
}
