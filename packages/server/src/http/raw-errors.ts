/** Responses to failures outside of a request: malformed HTTP, endless headers, tunnels. */
import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorCode, LIMITS } from '@cloche/contract';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { IdSource } from '../base/id-source.ts';
import { errorResponse, JSON_TYPE } from './error-response.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import { isUploading } from './uploads.ts';

/** Responds on a connection whose data is not a valid request, and closes it. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex, ids: IdSource): void {
  // An upload has no total time limit. It ends when no byte arrives for too long.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
  else endWith(socket, describe(error), ids.next('req_'));
}

/** Responds to requests that Node would otherwise close without a response or answer with an empty one. */
export function answerOddRequests(server: Server, ids: IdSource): void {
  server.on('connect', (request, socket) => {
    // Node has removed its own listeners from the socket.
    socket.on('error', () => socket.destroy());
    const error = new AppError('method_not_allowed', 'This service is not a proxy: it does not support CONNECT.');
    // RFC 9110 requires `Allow`. It is empty, because the target of CONNECT is another host, which has no methods here.
    endWith(socket, error, requestIdOf(request.headers[REQUEST_ID_HEADER], ids), ['allow: ']);
  });
  server.on('checkExpectation', (request, response) => {
    const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
    const error = invalidRequest({ path: 'headers.expect', message: 'must be "100-continue"' });
    const { status, text } = render(error, requestId);
    request.resume();
    const length = Buffer.byteLength(text);
    response.writeHead(status, { 'content-type': JSON_TYPE, 'content-length': length, [REQUEST_ID_HEADER]: requestId });
    response.end(text);
  });
}

function render(error: AppError, requestId: string): { status: number; text: string } {
  const { status, body } = errorResponse(error, requestId);
  return { status, text: JSON.stringify(body) };
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

function endWith(socket: Duplex, error: AppError, requestId: string, fields: readonly string[] = []): void {
  const { status, text } = render(error, requestId);
  const head = [
    `HTTP/1.1 ${status} ${reasonOf(error.code)}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(text)}`,
    `${REQUEST_ID_HEADER}: ${requestId}`,
    ...fields,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
}

function reasonOf(code: ErrorCode): string {
  return code === 'method_not_allowed' ? 'Method Not Allowed' : 'Bad Request';
}
