/** Sends JSON and streams of events, and records them under the Idempotency-Key of the request. */
import type { OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { REPLAYED_HEADER } from '@cloche/contract';
import type { FastifyReply } from 'fastify';
import type { ResultMemory } from '../base/result-memory.ts';
import type { Call } from '../call/call.ts';
import type { Claim, Idempotency } from '../idempotency/idempotency.ts';
import type { ResultFile, StoredResponse } from '../idempotency/stored-response.ts';
import { JSON_TYPE } from './error-response.ts';
import { endOf } from './in-flight.ts';
import { isLarge, jsonPieces } from './json-pieces.ts';
import type { RequestContext, Route } from './route.ts';
import { sendEvents } from './send-events.ts';
import { SpooledJson } from './spooled-list.ts';
import { type JsonText, type SseEvent, SseWriter } from './sse.ts';

/** Records and sends what the handler returns. */
export async function answerJson(
  { operation }: Route,
  handled: Promise<unknown>,
  reply: FastifyReply,
  { signal, memory }: Call,
  claim: Claim | undefined,
  idempotency: Idempotency,
): Promise<FastifyReply> {
  const value = await handled;
  const end = endOf(signal);
  // A response to a change is sent even now, as if it had been sent just before the request had to end.
  if (end && operation.method === 'GET') throw end;
  const { status } = operation.response;
  if (value instanceof SpooledJson) return sendJson(reply.header('content-length', value.bytes), status, value.json);
  if (isLarge(value)) return answerLarge(reply, { status, value, memory }, claim, idempotency);
  const text = JSON.stringify(value);
  await claim?.complete(status, text);
  return sendJson(reply, status, text);
}

/** Sends a large response from a file, so that a slow client costs no memory. */
async function answerLarge(
  reply: FastifyReply,
  { status, value, memory }: { status: number; value: unknown; memory: ResultMemory },
  claim: Claim | undefined,
  idempotency: Idempotency,
): Promise<FastifyReply> {
  const json = jsonPieces(value);
  const file = claim ? await claim.completeWithFile(status, json) : await idempotency.spool(json);
  memory.release();
  if ('json' in file) return sendJson(reply.header('content-length', file.bytes), status, file.json);
  return sendFile(reply, status, file, idempotency);
}

/** Sends the events of the handler, and records the last one. */
export async function answerStream(
  route: Route & { kind: 'stream' },
  reply: FastifyReply,
  context: RequestContext,
  claim: Claim | undefined,
  idempotency: Idempotency,
): Promise<FastifyReply> {
  // Sound: every event in the contract has a type and data.
  const events = (await route.handle(context)) as AsyncIterable<SseEvent>;
  return streamTo(reply, events, context.call, { claim, idempotency });
}

/** Sends the recorded response of an earlier request. */
export async function replay(
  route: Route,
  reply: FastifyReply,
  call: Call,
  response: StoredResponse,
  idempotency: Idempotency,
): Promise<FastifyReply> {
  reply.header(REPLAYED_HEADER, 'true');
  if (route.kind === 'json' || route.kind === 'receivedUpload') {
    if ('file' in response) return sendFile(reply, response.status, response.file, idempotency);
    return sendJson(reply, response.status, response.body);
  }
  const result = 'file' in response ? idempotency.read(response.file) : [response.body];
  return streamTo(reply, resultAlone(result), call, { claim: undefined, idempotency });
}

/** Replays only the result of a stream: earlier events are not stored. */
async function* resultAlone(json: JsonText): AsyncGenerator<SseEvent> {
  yield { type: 'complete', json };
}

async function streamTo(
  reply: FastifyReply,
  events: AsyncIterable<SseEvent>,
  call: Call,
  record: { claim: Claim | undefined; idempotency: Idempotency },
): Promise<FastifyReply> {
  reply.hijack();
  const writer = new SseWriter(reply.raw, reply.getHeaders() as OutgoingHttpHeaders);
  const error = await sendEvents(events, writer, call, record);
  if (error) reply.request.state.errorCode = error;
  return reply;
}

function sendFile(reply: FastifyReply, status: number, file: ResultFile, idempotency: Idempotency): FastifyReply {
  const json = Readable.from(idempotency.read(file), { objectMode: false });
  return sendJson(reply.header('content-length', file.bytes), status, json);
}

function sendJson(reply: FastifyReply, status: number, json: string | Readable): FastifyReply {
  return reply.code(status).type(JSON_TYPE).send(json);
}
