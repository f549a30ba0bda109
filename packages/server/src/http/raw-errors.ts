/** Answers to what is not an ordinary request: malformed HTTP, endless headers, tunnels. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LIMITS } from '@cloche/contract';
import type { Refusal } from '@cloche/node-support';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { IdSource } from '../base/id-source.ts';
import { errorResponse, JSON_TYPE } from './error-response.ts';
import { BEFORE_KEY } from './front.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';

/** Returns the answer to data that is not a valid request. */
export function refuseInvalid(error: NodeJS.ErrnoException, ids: IdSource): Refusal {
  return refusal(describe(error), ids.next('req_'));
}

export function refuseConnect({ headers }: IncomingMessage, ids: IdSource): Refusal {
  const error = new AppError('method_not_allowed', 'This service is not a proxy: it does not support CONNECT.');
  // RFC 9110 requires `Allow`. It is empty, because the target of CONNECT is another host, which has no methods here.
  return refusal(error, requestIdOf(headers[REQUEST_ID_HEADER], ids), { allow: '' });
}

export function refuseExpectation({ headers }: IncomingMessage, ids: IdSource): Refusal {
  const error = invalidRequest({ path: 'headers.expect', message: 'must be "100-continue"' });
  return refusal(error, requestIdOf(headers[REQUEST_ID_HEADER], ids));
}

export function refuseFields({ headers }: IncomingMessage, ids: IdSource): Refusal {
  const error = invalidRequest({ path: 'headers', message: `are more than ${BEFORE_KEY.headFields}; send fewer` });
  return refusal(error, requestIdOf(headers[REQUEST_ID_HEADER], ids));
}

export function answerRefusal(response: ServerResponse, { status, fields, body }: Refusal): void {
  response.writeHead(status, { ...fields, 'content-length': Buffer.byteLength(body) }).end(body);
}

function refusal(error: AppError, requestId: string, fields: Refusal['fields'] = {}): Refusal {
  const { status, body } = errorResponse(error, requestId);
  return {
    status,
    fields: { 'content-type': JSON_TYPE, [REQUEST_ID_HEADER]: requestId, ...fields },
    body: JSON.stringify(body),
  };
}

function describe(error: NodeJS.ErrnoException): AppError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return invalidRequest({
        path: 'headers',
        message: `and the URL together are larger than ${LIMITS.headerBytes} bytes`,
      });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return invalidRequest({ path: 'request', message: 'took too long to arrive' });
    default:
      return invalidRequest({ path: 'request', message: 'is not valid HTTP/1.1' });
  }
}
