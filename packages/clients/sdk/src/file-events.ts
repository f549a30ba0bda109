import type { FileEvent } from '@cloche/contract';
import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';
import { platformError, readMessages } from './event-stream.ts';

const EVENT_TYPES: ReadonlySet<string> = new Set<FileEvent['type']>([
  'created',
  'modified',
  'deleted',
  'overflow',
  'complete',
]);

/**
 * Yields the changes of a directory. `complete` is the last and means that the directory was deleted.
 * @throws {ClocheError} the service's code, or `stream_interrupted`.
 */
export async function* readFileEvents(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<FileEvent, void> {
  for await (const { data } of readMessages(body, deadline)) {
    // The service has validated its events. Unknown event types are skipped.
    const event = JSON.parse(data) as FileEvent | { type: 'error'; data: { name: string; message: string } };
    if (event.type === 'error') throw platformError(event.data);
    if (!EVENT_TYPES.has(event.type)) continue;
    yield event;
    if (event.type === 'complete') return;
  }
  throw new ClocheError('stream_interrupted', 'The watch broke off; look at what matters and watch again.');
}
