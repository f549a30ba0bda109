/** Answers of the operations that take or give bytes instead of JSON. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Operation } from '@cloche/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../base/app-error.ts';
import { sendBody } from '../bytes/byte-transfer.ts';
import { JSON_TYPE } from './error-response.ts';
import { ClientGone } from './in-flight.ts';
import type { Download, RequestContext, Route } from './route.ts';
import { uploadOf } from './uploads.ts';

/** What bounds the moving of bytes. */
export interface TransferLimits {
  /** A transfer of which no byte moved for so long is given up: its connection breaks. */
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
  const { json, headers = {} } = await route.handle({ ...context, headers: headersOf(request, operation), upload });
  return reply.code(operation.response.status).headers(headers).type(JSON_TYPE).send(JSON.stringify(json));
}

/** From the first byte on the connection itself is all that can tell the client of a failure: it breaks. */
export async function answerDownload(
  route: Route & { kind: 'download' },
  request: FastifyRequest,
  reply: FastifyReply,
  context: RequestContext,
  { stallMs }: TransferLimits,
): Promise<FastifyReply> {
  const headOnly = request.method === 'HEAD';
  const headers = headersOf(request, route.operation);
  const download = await route.handle({ ...context, headers, headOnly });
  return sendDownload(request, reply, download, { signal: context.signal, stallMs });
}

/** Resolves when the last byte is out, or nobody is left to take it. */
export async function sendDownload(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, headers, body }: Download,
  { signal, stallMs }: TransferLimits & { signal: AbortSignal },
): Promise<FastifyReply> {
  reply.headers(headers).hijack();
  reply.raw.writeHead(status, reply.getHeaders() as OutgoingHttpHeaders);
  if (!body) {
    reply.raw.end();
    return reply;
  }
  reply.raw.setTimeout(stallMs);
  try {
    await sendBody(body, reply.raw, signal);
  } catch (error) {
    const isClients = signal.reason instanceof ClientGone || reply.raw.closed;
    request.state.errorCode = isClients ? 'client_gone' : 'unavailable';
    if (!isClients) request.log.warn({ err: error }, 'a download broke');
  }
  return reply;
}

function headersOf(request: FastifyRequest, { headers = {} }: Operation): Record<string, string> {
  const given: [string, string][] = [];
  for (const name of Object.keys(headers)) {
    const value = request.headers[name];
    if (typeof value === 'string') given.push([name, value]);
  }
  return Object.fromEntries(given);
}

/** What is stored is what is sent: nobody would know later that it is compressed. */
function refuseEncoding({ headers }: FastifyRequest): void {
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity') return;
  throw new AppError('unsupported_media_type', 'Send the body uncompressed, without Content-Encoding.');
}
