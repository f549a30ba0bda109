import type { ErrorCode } from '@cloche/contract';
import { orAbort } from '@cloche/node-support';
import type { Call } from '../call/call.ts';
import type { Claim, Idempotency } from '../idempotency/idempotency.ts';
import { toAppError } from './error-response.ts';
import { ClientGoneError } from './in-flight.ts';
import { isLarge, jsonPieces } from './json-pieces.ts';
import type { SseEvent, SseWriter } from './sse.ts';

/** The idempotency record of a stream's last event, if the request has one. */
export interface StreamRecord {
  readonly claim: Claim | undefined;
  readonly idempotency: Idempotency;
}

/**
 * Sends `events` up to and including `complete` (`exit` for a command), which is stored before it is sent. On an error,
 * ends the stream with an `error` event and leaves the record failed, because the work had begun. Returns the code of
 * that error.
 */
export async function sendEvents(
  events: AsyncIterable<SseEvent>,
  writer: SseWriter,
  call: Pick<Call, 'signal' | 'log' | 'memory'>,
  record: StreamRecord,
): Promise<ErrorCode | 'client_gone' | undefined> {
  const iterator = events[Symbol.asyncIterator]();
  try {
    await sendUntilComplete(iterator, writer, call, record);
    writer.end();
    return undefined;
  } catch (error) {
    await record.claim?.failWith(call.log);
    if (error instanceof ClientGoneError) return 'client_gone';
    const { code, message, cause } = toAppError(error);
    if (code === 'internal') call.log.error({ err: cause }, 'stream failed');
    await writer.send({ type: 'error', data: { name: code, message } }).catch(() => undefined);
    writer.end();
    return code;
  } finally {
    // Not awaited: the abort or the end of the stream already stops the producer, and the client need not wait for it.
    iterator.return?.().catch((error: unknown) => call.log.warn({ err: error }, 'stream not closed'));
  }
}

async function sendUntilComplete(
  iterator: AsyncIterator<SseEvent>,
  writer: SseWriter,
  { signal, memory }: Pick<Call, 'signal' | 'memory'>,
  { claim, idempotency }: StreamRecord,
): Promise<void> {
  for (;;) {
    const { done, value: event } = await orAbort(iterator.next(), signal);
    if (done) throw new Error('a stream ended without its complete event');
    if (event.type !== 'complete' && event.type !== 'exit') {
      await orAbort(writer.send(event), signal);
      continue;
    }
    const result = claim ? await record(event, claim, idempotency) : event;
    memory.release();
    await writer.send(result);
    return;
  }
}

/** Stores the event and returns it for sending. A large result is read from the file that it was stored in. */
async function record(event: SseEvent, claim: Claim, idempotency: Idempotency): Promise<SseEvent> {
  if (!('data' in event)) return event;
  if (!isLarge(event.data)) {
    const text = JSON.stringify(event.data);
    await claim.complete(200, text);
    return { type: event.type, json: [text] };
  }
  const file = await claim.completeWithFile(200, jsonPieces(event.data));
  return { type: event.type, json: idempotency.read(file) };
}
