import type { ResourceEvent } from '@cloche/contract';
import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';
import { platformError, readMessages } from './event-stream.ts';

/**
 * Yields the events of one stream, which ends only by throwing.
 * @throws {ClocheError} the service's code, or `stream_interrupted`.
 */
export async function* readResourceEvents(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<ResourceEvent, void> {
  try {
    for await (const { data } of readMessages(body, deadline)) {
      const event = parse(data);
      if (event.type === 'error') throw platformError(event.data);
      yield event;
    }
  } catch (cause) {
    if (deadline.signal.aborted || cause instanceof ClocheError) throw cause;
    throw interrupted(cause);
  }
  throw interrupted(undefined);
}

function parse(data: string): ResourceEvent | { type: 'error'; data: { name: string; message: string } } {
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
