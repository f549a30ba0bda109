/** From a validated request to its answer: idempotency around the handler. */
import type { OutgoingHttpHeaders } from 'node:http';
import { REPLAYED_HEADER } from '@cloche/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { AppError } from '../app-error.ts';
import type { Claim, Idempotency, Opened } from '../idempotency/idempotency.ts';
import { answerSocket } from './answer-socket.ts';
import { answerDownload, answerUpload, type TransferLimits } from './bytes.ts';
import { concretePath } from './concrete-path.ts';
import { JSON_TYPE } from './error-response.ts';
import { ClientGone, type InFlight } from './in-flight.ts';
import type { ValidRequest } from './request-validator.ts';
import type { RequestContext, Route } from './route.ts';
import { sendEvents } from './send-events.ts';
import { type SseEvent, SseWriter } from './sse.ts';

export interface Execution {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly valid: ValidRequest;
}

export interface ExecutionParts {
  readonly idempotency: Idempotency;
  readonly inFlight: InFlight;
  readonly transfers: TransferLimits;
}

/** Executes `route` for one request, or replays what an earlier one of the same Idempotency-Key answered. */
export async function execute(route: Route, execution: Execution, parts: ExecutionParts): Promise<FastifyReply> {
  const { request, reply } = execution;
  // What changes something runs to its end and is recorded, whether or not the client waits for it.
  const isInterruptible = route.kind === 'stream' || route.operation.method === 'GET';
  const controller = parts.inFlight.enter(isInterruptible);
  if (isInterruptible || route.kind === 'upload') abortWithClient(reply, controller);
  try {
    const opened = await openRecord(route, execution, parts.idempotency);
    const claim = opened?.status === 'claimed' ? opened.claim : undefined;
    const context = contextOf(execution, claim, controller.signal);
    if (opened?.status === 'replay') return await replay(route, reply, context, opened.response);
    try {
      return await answer(route, execution, context, claim, parts.transfers);
    } catch (error) {
      await claim?.endWith(error, context.log);
      throw error;
    }
  } catch (error) {
    throw controller.signal.reason instanceof ClientGone ? controller.signal.reason : error;
  } finally {
    afterAnswer(reply, () => parts.inFlight.leave(controller));
    request.state.idempotency ??= execution.valid.idempotencyKey === undefined ? undefined : 'executed';
  }
}

function answer(
  route: Route,
  { request, reply }: Execution,
  context: RequestContext,
  claim: Claim | undefined,
  transfers: TransferLimits,
): Promise<FastifyReply> {
  switch (route.kind) {
    case 'json':
      return answerJson(route, reply, context, claim);
    case 'stream':
      return answerStream(route, reply, context, claim);
    case 'download':
      return answerDownload(route, request, reply, context, transfers);
    case 'socket':
      return answerSocket(route, request, reply, context);
    case 'upload':
      return answerUpload(route, request, reply, context, transfers);
  }
}

function abortWithClient(reply: FastifyReply, controller: AbortController): void {
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort(new ClientGone());
  });
}

/** When the last byte is on its way, or nobody is left to take it: a server that stops waits for that. */
function afterAnswer({ raw }: FastifyReply, act: () => void): void {
  if (raw.closed || raw.destroyed) act();
  else raw.once('close', act);
}

async function openRecord(
  { operation }: Route,
  { request, valid }: Execution,
  idempotency: Idempotency,
): Promise<Opened | undefined> {
  const { credential } = request.state;
  if (valid.idempotencyKey === undefined || !credential) return undefined;
  const scope = {
    orgId: credential.orgId,
    apiKeyId: credential.apiKeyId,
    method: operation.method,
    route: concretePath(operation.path, valid.params),
    key: valid.idempotencyKey,
  };
  try {
    const opened = await idempotency.open(scope, valid.body);
    if (opened.status === 'replay') request.state.idempotency = 'replayed';
    return opened;
  } catch (error) {
    if (error instanceof AppError) request.state.idempotency = 'refused';
    throw error;
  }
}

function contextOf({ request, valid }: Execution, claim: Claim | undefined, signal: AbortSignal): RequestContext {
  const { credential, receivedAt } = request.state;
  if (!credential) throw new Error('a route of the contract was reached without authentication');
  return {
    requestId: request.id,
    credential,
    // Sound: the validator checked each part by the operation's schemas.
    params: valid.params as RequestContext['params'],
    query: valid.query as RequestContext['query'],
    body: valid.body as RequestContext['body'],
    receivedAt,
    signal,
    idempotencyRecordId: claim?.recordId,
    lastEventId: firstOf(request.headers['last-event-id']),
    // Fastify's logger is the pino instance that it was given.
    log: request.log as Logger,
  };
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

async function answerJson(
  route: Route & { kind: 'json' },
  reply: FastifyReply,
  context: RequestContext,
  claim: Claim | undefined,
): Promise<FastifyReply> {
  const text = JSON.stringify(await route.handle(context));
  const { status } = route.operation.response;
  await claim?.complete(status, text);
  return sendJson(reply, status, text);
}

async function answerStream(
  route: Route & { kind: 'stream' },
  reply: FastifyReply,
  context: RequestContext,
  claim: Claim | undefined,
): Promise<FastifyReply> {
  // Sound: every event of the contract has a type and data.
  const events = (await route.handle(context)) as AsyncIterable<SseEvent>;
  return streamTo(reply, events, context, claim);
}

async function replay(
  route: Route,
  reply: FastifyReply,
  context: RequestContext,
  response: { status: number; body: string },
): Promise<FastifyReply> {
  reply.header(REPLAYED_HEADER, 'true');
  if (route.kind === 'json') return sendJson(reply, response.status, response.body);
  return streamTo(reply, resultAlone(response.body), context, undefined);
}

/** What was printed on the way is not kept. */
async function* resultAlone(body: string): AsyncGenerator<SseEvent> {
  yield { type: 'complete', data: JSON.parse(body) };
}

async function streamTo(
  reply: FastifyReply,
  events: AsyncIterable<SseEvent>,
  context: RequestContext,
  claim: Claim | undefined,
): Promise<FastifyReply> {
  reply.hijack();
  const writer = new SseWriter(reply.raw, reply.getHeaders() as OutgoingHttpHeaders);
  const error = await sendEvents(events, writer, context, claim);
  if (error) reply.request.state.errorCode = error;
  return reply;
}

function sendJson(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type(JSON_TYPE).send(text);
}
