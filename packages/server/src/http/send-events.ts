import type { ErrorCode } from '@cloche/contract';
import type { Claim } from '../idempotency/idempotency.ts';
import { toAppError } from './error-response.ts';
import { ClientGone } from './in-flight.ts';
import type { RequestContext } from './route.ts';
import type { SseEvent, SseWriter } from './sse.ts';

/**
 * Sends `events` up to and including `complete` (of a command `exit`), which is stored before it is sent. What goes wrong on the way ends
 * the stream with an `error` event and leaves the record failed: the work had begun. Answers what went wrong.
 */
export async function sendEvents(
  events: AsyncIterable<SseEvent>,
  writer: SseWriter,
  { signal, log }: Pick<RequestContext, 'signal' | 'log'>,
  claim: Claim | undefined,
): Promise<ErrorCode | 'client_gone' | undefined> {
  const iterator = events[Symbol.asyncIterator]();
  try {
    await sendUntilComplete(iterator, writer, signal, claim);
    writer.end();
    return undefined;
  } catch (error) {
    await claim?.fail().catch((cause: unknown) => log.error({ err: cause }, 'idempotency record not ended'));
    if (error instanceof ClientGone) return 'client_gone';
    const { code, message, cause } = toAppError(error);
    if (code === 'internal') log.error({ err: cause }, 'stream failed');
    await writer.send({ type: 'error', data: { name: code, message } }).catch(() => undefined);
    writer.end();
    return code;
  } finally {
    // Not awaited: the signal or the end of the stream has told the producer, and the client need not wait for it.
    iterator.return?.().catch((error: unknown) => log.warn({ err: error }, 'stream not closed'));
  }
}

async function sendUntilComplete(
  iterator: AsyncIterator<SseEvent>,
  writer: SseWriter,
  signal: AbortSignal,
  claim: Claim | undefined,
): Promise<void> {
  for (;;) {
    const { done, value: event } = await untilAborted(iterator.next(), signal);
    if (done) throw new Error('a stream ended without its complete event');
    if (event.type !== 'complete' && event.type !== 'exit') {
      await untilAborted(writer.send(event), signal);
      continue;
    }
    await claim?.complete(200, JSON.stringify(event.data));
    await writer.send(event);
    return;
  }
}

function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
