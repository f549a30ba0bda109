/** Executes a validated request: applies idempotency and calls the handler. */
import { takesSpace } from '@cloche/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { AuditLog } from '../audit-log/audit-log.ts';
import { auditActionOf, RequestAudit } from '../audit-log/request-audit.ts';
import { AppError } from '../base/app-error.ts';
import type { DiskSpace } from '../base/disk-space.ts';
import type { ResultMemoryLimit } from '../base/result-memory.ts';
import type { Call } from '../call/call.ts';
import { AnswerSeal } from '../idempotency/answer-seal.ts';
import type { Claim, Idempotency, Opened } from '../idempotency/idempotency.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import { answerSocket } from './answer-socket.ts';
import { answerDownload, answerUpload, type TransferLimits } from './bytes.ts';
import { addressOf, type Callers } from './callers.ts';
import { concretePath } from './concrete-path.ts';
import { bearerKey } from './credential-sources.ts';
import { ClientGoneError, endOf, type InFlight } from './in-flight.ts';
import type { ListCursors } from './list-cursors.ts';
import { receiveBody } from './received-uploads.ts';
import { answerJson, answerStream, replay } from './recorded-answers.ts';
import { addRateFields } from './request-limit.ts';
import type { ValidRequest } from './request-validator.ts';
import type { ReceivedBody, RequestContext, Route } from './route.ts';

export interface Execution {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly valid: ValidRequest;
}

export interface ExecuteDeps {
  readonly authenticator: Authenticator;
  readonly idempotency: Idempotency;
  readonly inFlight: InFlight;
  readonly transfers: TransferLimits;
  readonly resultMemoryLimit: ResultMemoryLimit;
  readonly space: DiskSpace;
  readonly cursors: ListCursors;
  readonly auditLog?: AuditLog;
  readonly callers?: Callers;
}

/** Executes `route` for one request, or replays the response to an earlier request with the same Idempotency-Key. */
export async function execute(route: Route, execution: Execution, deps: ExecuteDeps): Promise<FastifyReply> {
  const { request, reply } = execution;
  // A request that changes state runs to its end and is recorded, whether or not the client still waits.
  const isInterruptible = route.kind === 'stream' || route.operation.method === 'GET';
  const credential = requireCredential(request);
  const controller = deps.inFlight.enter(credential, isInterruptible);
  if (isInterruptible || route.kind === 'upload') abortWithClient(reply, controller);
  const memory = deps.resultMemoryLimit.open(credential.orgId);
  const carried = { credential, signal: controller.signal, memory };
  const context = (call: Call, lookedUp?: unknown) => contextOf(execution, { call, lookedUp }, deps);
  let received: ReceivedBody | undefined;
  try {
    if (route.kind === 'receivedUpload') {
      const call = callOf(execution, { ...carried, claim: undefined, audit: undefined });
      using _ = abortWithClient(reply, controller);
      received = await receiveBody(route, request, reply, context(call), deps);
    }
    const opening = openRecord(route, execution, received?.fingerprint ?? execution.valid.body, deps);
    // Starts after the claim was sent, because the claim takes longer and should reach the database first.
    const lookedUp = lookAhead(route, execution, credential);
    const opened = await opening;
    const claim = opened?.status === 'claimed' ? opened.claim : undefined;
    claim?.setWork(controller);
    const audit = auditOf(route, request, credential, deps);
    request.state.audit = audit;
    const call = callOf(execution, { ...carried, claim, audit });
    if (opened?.status === 'replay') return await replay(route, reply, call, opened.response, deps.idempotency);
    try {
      return await answer(route, execution, context(call, lookedUp), { claim, received }, deps);
    } catch (error) {
      await claim?.endWith(error, call.log);
      throw error;
    }
  } catch (error) {
    throw endOf(controller.signal) ?? error;
  } finally {
    memory.release();
    afterAnswer(reply, () => deps.inFlight.leave(credential, controller));
    request.state.idempotency ??= execution.valid.idempotencyKey === undefined ? undefined : 'executed';
    if (received) await discard(received, request);
  }
}

async function answer(
  route: Route,
  { request, reply }: Execution,
  context: RequestContext,
  { claim, received }: { claim: Claim | undefined; received: ReceivedBody | undefined },
  { transfers, idempotency, space }: ExecuteDeps,
): Promise<FastifyReply> {
  if (takesSpace(route.operation)) await space.require();
  switch (route.kind) {
    case 'json':
      return answerJson(route, route.handle(context), reply, context.call, claim, idempotency);
    case 'receivedUpload':
      if (!received) throw new Error('the body was not received');
      return answerJson(route, route.handle(context, received), reply, context.call, claim, idempotency);
    case 'stream':
      return answerStream(route, reply, context, claim, idempotency);
    case 'download':
      return answerDownload(route, request, reply, context, transfers);
    case 'socket':
      return answerSocket(route, request, reply, context);
    case 'upload':
      return answerUpload(route, request, reply, context, transfers);
  }
}

/** Removes a received body. It changes nothing for the client if that fails. */
async function discard(received: ReceivedBody, { log }: FastifyRequest): Promise<void> {
  try {
    await received[Symbol.asyncDispose]();
  } catch (error) {
    log.warn({ err: error }, 'a received body is not removed');
  }
}

/** Aborts `controller` when the client disconnects, until disposed of. */
function abortWithClient({ raw }: FastifyReply, controller: AbortController): Disposable {
  const abort = () => {
    if (!raw.writableFinished) controller.abort(new ClientGoneError());
  };
  raw.once('close', abort);
  return { [Symbol.dispose]: () => raw.off('close', abort) };
}

/** Calls `act` when the response has been sent or its connection has closed. A stopping server waits for this. */
function afterAnswer({ raw }: FastifyReply, act: () => void): void {
  if (raw.closed || raw.destroyed) act();
  else raw.once('close', act);
}

/**
 * Starts the handler's look-ups while the database decides the claim. Without a claim there is nothing to wait for, and
 * the handler does its look-ups itself.
 */
function lookAhead(route: Route, { valid }: Execution, credential: Credential): unknown {
  if (valid.idempotencyKey === undefined || (route.kind !== 'json' && route.kind !== 'stream')) return undefined;
  // Sound: the validator checked each part against the operation's schemas.
  return route.lookAhead?.(credential, { params: valid.params as RequestContext['params'], body: valid.body as never });
}

/** @param body the part of the request that must be equal in requests with the same key */
async function openRecord(
  { operation }: Route,
  { request, valid }: Execution,
  body: unknown,
  { idempotency, authenticator }: ExecuteDeps,
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
    const hasSecret = operation.secretAnswer || operation.secretBody;
    const secret = hasSecret && bearerKey(request.headers.authorization);
    const seal = secret ? new AnswerSeal(authenticator.sealingSecret(secret), scope) : undefined;
    const opened = await idempotency.open(scope, body, seal);
    if (opened.status === 'replay') request.state.idempotency = 'replayed';
    return opened;
  } catch (error) {
    if (error instanceof AppError) request.state.idempotency = 'refused';
    throw error;
  }
}

function auditOf(
  { operation }: Route,
  request: FastifyRequest,
  credential: Credential,
  { auditLog: log, callers }: ExecuteDeps,
): RequestAudit | undefined {
  const action = log && auditActionOf(operation);
  const ip = addressOf(request, callers);
  return action && new RequestAudit(log, { credential, requestId: request.id, ip }, action);
}

function requireCredential({ state: { credential } }: FastifyRequest): Credential {
  if (!credential) throw new Error('a route of the contract was reached without authentication');
  return credential;
}

function callOf(
  { request, reply }: Execution,
  { claim, ...carried }: Pick<Call, 'credential' | 'signal' | 'memory' | 'audit'> & { claim: Claim | undefined },
): Call {
  return {
    ...carried,
    receivedAt: request.state.receivedAt,
    idempotency: claim && { recordId: claim.recordId, claim: claim.record.claim },
    reportRates: (fields) => addRateFields(reply, fields),
    // Sound: Fastify's logger is the pino instance that it was given.
    log: request.log as Logger,
  };
}

function contextOf(
  { request, valid }: Execution,
  { call, lookedUp }: Pick<RequestContext, 'call' | 'lookedUp'>,
  { cursors, space, idempotency }: ExecuteDeps,
): RequestContext {
  return {
    call,
    lookedUp,
    // Sound: the validator checked each part against the operation's schemas.
    params: valid.params as RequestContext['params'],
    query: valid.query as RequestContext['query'],
    body: valid.body as RequestContext['body'],
    lastEventId: firstOf(request.headers['last-event-id']),
    cursors,
    async spool(json) {
      await space.require();
      return idempotency.spool(json);
    },
  };
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
