/** Responses of operations that receive or send bytes instead of JSON. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Operation } from '@cloche/contract';
import { sendBody } from '@cloche/runtime/byte-transfer';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../base/app-error.ts';
import { JSON_TYPE } from './error-response.ts';
import { ClientGoneError } from './in-flight.ts';
import type { Download, RequestContext, Route } from './route.ts';
import { uploadOf } from './uploads.ts';

/** Limits on transfers. */
export interface TransferLimits {
  /** Milliseconds without a byte after which a transfer's connection is closed. */
  readonly stallMs: number;
}

export async function answerUpload(
  route: Route & { kind: 'upload' },
  request: FastifyRequest,
  reply: FastifyReply,
  context: RequestContext,
  { stallMs }: TransferLimits,
): Promise<FastifyReply> {
  refuseEncoding(request);
  using upload = uploadOf(request.raw, reply.raw, stallMs);
  const { operation } = route;
  const handled = route.handle({ ...context, headers: declaredHeaders(request, operation), upload });
  const { json, headers = {} } = await handled.catch((error) => {
    throw upload.failure ?? error;
  });
  return reply.code(operation.response.status).headers(headers).type(JSON_TYPE).send(JSON.stringify(json));
}

/** Answers a download. After the first byte, a failure can be reported only by breaking the connection. */
export async function answerDownload(
  route: Route & { kind: 'download' },
  request: FastifyRequest,
  reply: FastifyReply,
  context: RequestContext,
  { stallMs }: TransferLimits,
): Promise<FastifyReply> {
  const headOnly = request.method === 'HEAD';
  const headers = declaredHeaders(request, route.operation);
  const download = await route.handle({ ...context, headers, headOnly });
  return sendDownload(request, reply, download, { signal: context.call.signal, stallMs });
}

/** Resolves when the last byte was sent or the client is gone. */
export async function sendDownload(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, headers, body }: Download,
  { signal, stallMs }: TransferLimits & { signal: AbortSignal },
): Promise<FastifyReply> {
  try {
    reply.headers(headers);
    reply.raw.writeHead(status, reply.getHeaders() as OutgoingHttpHeaders);
    reply.hijack();
  } catch (error) {
    body?.destroy();
    throw error;
  }
  if (!body) {
    reply.raw.end();
    return reply;
  }
  reply.raw.setTimeout(stallMs);
  try {
    await sendBody(body, reply.raw, signal);
  } catch (error) {
    const isClients = signal.reason instanceof ClientGoneError || reply.raw.closed;
    request.state.errorCode = isClients ? 'client_gone' : 'unavailable';
    if (!isClients) request.log.warn({ err: error }, 'a download broke');
  }
  return reply;
}

export function declaredHeaders(request: FastifyRequest, { headers = {} }: Operation): Record<string, string> {
  const given: [string, string][] = [];
  for (const name of Object.keys(headers)) {
    const value = request.headers[name];
    if (typeof value === 'string') given.push([name, value]);
  }
  return Object.fromEntries(given);
}

/** Refuses a compressed body: it would be stored as sent, without a record of its encoding. */
export function refuseEncoding({ headers }: FastifyRequest): void {
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity') return;
  throw new AppError('unsupported_media_type', 'Send the body uncompressed, without Content-Encoding.');
}
