import type { CodeRunEvent, ErrorCode } from '@cloche/contract';
import { ERRORS } from '@cloche/contract/client';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';

const EVENT_TYPES: ReadonlySet<string> = new Set<CodeRunEvent['type']>([
  'stdout',
  'stderr',
  'output',
  'error',
  'complete',
]);

/**
 * Yields the events of a run up to `complete`. A final `error` event means that the service failed, and is thrown.
 * @throws {ClocheError} the service's code, or `stream_interrupted`.
 */
export async function* readRunEvents(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<CodeRunEvent, void> {
  // An exception's class may be named like an error code. Only the next event tells the two apart: the service's is the
  // last.
  let held: (CodeRunEvent & { type: 'error' }) | undefined;
  try {
    for await (const message of readMessages(body, deadline)) {
      const event = readEvent(message);
      if (!event) continue;
      if (held) yield held;
      held = event.type === 'error' && isErrorCode(event.data.name) ? event : undefined;
      if (held) continue;
      yield event;
      if (event.type === 'complete') return;
    }
  } catch (cause) {
    if (deadline.signal.aborted || cause instanceof ClocheError) throw cause;
    throw held ? platformError(held.data) : interrupted(cause);
  }
  throw held ? platformError(held.data) : interrupted();
}

/** Yields complete messages, however they were split. Only the wait for the service counts against the deadline. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<EventSourceMessage, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const complete: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => complete.push(message) });
  for (;;) {
    deadline.restart();
    const { done, value } = await reader.read();
    deadline.pause();
    if (done) return;
    parser.feed(decoder.decode(value, { stream: true }));
    yield* complete.splice(0);
  }
}

/** Returns undefined for an event type that this version does not know. */
function readEvent({ data }: EventSourceMessage): CodeRunEvent | undefined {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch (cause) {
    throw new ClocheError('unexpected_response', 'An event of the stream is not JSON.', { cause });
  }
  const { type } = (event ?? {}) as { type?: unknown };
  return typeof type === 'string' && EVENT_TYPES.has(type) ? (event as CodeRunEvent) : undefined;
}

function isErrorCode(name: string): name is ErrorCode {
  return Object.hasOwn(ERRORS, name);
}

export function platformError({ name, message }: { name: string; message: string }): ClocheError {
  return new ClocheError(name as ErrorCode, message);
}

function interrupted(cause?: unknown): ClocheError {
  const message = 'The stream broke off before the result came; the run was canceled, send it again.';
  return new ClocheError('stream_interrupted', message, { cause });
}
