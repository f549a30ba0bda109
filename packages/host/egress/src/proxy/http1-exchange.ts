import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Exchange } from './exchange.ts';
import { endToEndFields } from './fields.ts';

export type Http1Exchange = Exchange & { readonly hosts: readonly string[]; readonly url: string };

/** Most header fields. Each takes a microsecond or two; servers accept 100 to 2,000. */
const MAX_FIELDS = 1000;

/** Returns whether a request has more fields than egress accepts. */
export function hasTooManyFields({ rawHeaders }: IncomingMessage): boolean {
  return rawHeaders.length > 2 * MAX_FIELDS;
}

/** Returns undefined for a body with a transfer coding other than chunked, which only the next hop could decode. */
export function http1Exchange(
  request: IncomingMessage,
  response: ServerResponse,
  sendContinue?: () => void,
): Http1Exchange | undefined {
  const codings = request.headersDistinct['transfer-encoding'];
  if (codings && codings.join().toLowerCase() !== 'chunked') return undefined;
  const length = request.headers['content-length'];
  const hasBody = codings !== undefined || (length !== undefined && Number(length) > 0);
  // Responses are passed on without a field of egress' own.
  response.sendDate = false;
  return {
    method: request.method ?? '',
    url: request.url ?? '',
    hosts: request.headersDistinct.host ?? [],
    fields: endToEndFields(request.rawHeaders, 'host', 'expect'),
    body: hasBody ? request : undefined,
    ...(sendContinue && { sendContinue }),
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

/** Sends an error response and closes the connection, because the refused request may have smuggled in another one. */
export function refuseHttp1(response: ServerResponse, status: number, body: string): void {
  // The reason phrase is given, because Node would otherwise keep that of a response that could not be passed on.
  response.writeHead(status, STATUS_CODES[status] ?? '', {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}

function onAbandoned(response: ServerResponse, callback: () => void): void {
  response.once('close', () => {
    if (!response.writableFinished) callback();
  });
}
