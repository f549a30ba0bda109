import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';
import { platformError, readMessages } from './event-stream.ts';

/**
 * Yields the events of one stream whose events have numbers. Ends only by throwing, or when the caller leaves the loop.
 * @throws {ClocheError} the service's code, or `stream_interrupted`.
 */
export async function* readNumberedEvents<Event>(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<Event, void> {
  try {
    for await (const { data } of readMessages(body, deadline)) {
      const event = parse<Event>(data);
      if (isFailure(event)) throw platformError(event.data);
      yield event;
    }
  } catch (cause) {
    if (deadline.signal.aborted || cause instanceof ClocheError) throw cause;
    throw interrupted(cause);
  }
  throw interrupted(undefined);
}

interface Failure {
  readonly type: 'error';
  readonly data: { name: string; message: string };
}

function isFailure(event: unknown): event is Failure {
  return (event as { type: unknown }).type === 'error';
}

/** Parses an event. The service sends events of the operation's type only, or a failure. */
function parse<Event>(data: string): Event | Failure {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new ClocheError('unexpected_response', 'An event of the stream is not JSON.', { cause });
  }
}

function interrupted(cause: unknown): ClocheError {
  return new ClocheError('stream_interrupted', 'The stream of events broke off; continue after the last event.', {
    cause,
  });
}
