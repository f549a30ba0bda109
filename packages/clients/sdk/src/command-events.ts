import type { CommandEvent } from '@cloche/contract';
import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';
import { platformError, readMessages } from './event-stream.ts';

/**
 * Yields the events of one stream of a command. Ends without `exit` only by throwing.
 * @throws {ClocheError} the service's code, or `stream_interrupted`.
 */
export async function* readCommandEvents(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<CommandEvent, void> {
  try {
    for await (const { data } of readMessages(body, deadline)) {
      const event = parse(data);
      if (event.type === 'error') throw platformError(event.data);
      if (event.type !== 'log' && event.type !== 'exit') continue;
      yield event;
      if (event.type === 'exit') return;
    }
  } catch (cause) {
    if (deadline.signal.aborted || cause instanceof ClocheError) throw cause;
    throw interrupted(cause);
  }
  throw interrupted(undefined);
}

function parse(data: string): CommandEvent | { type: 'error'; data: { name: string; message: string } } {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new ClocheError('unexpected_response', 'An event of the stream is not JSON.', { cause });
  }
}

function interrupted(cause: unknown): ClocheError {
  return new ClocheError('stream_interrupted', 'The stream of the command broke off before its end.', { cause });
}
