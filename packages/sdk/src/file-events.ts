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
 * The changes of a directory up to `complete`, which says that it is gone.
 * @throws {ClocheError} the platform's code, or `stream_interrupted`.
 */
export async function* readFileEvents(
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
): AsyncGenerator<FileEvent, void> {
  for await (const { data } of readMessages(body, deadline)) {
    // What the service sends has been checked by it; what this version does not know is left out.
    const event = JSON.parse(data) as FileEvent | { type: 'error'; data: { name: string; message: string } };
    if (event.type === 'error') throw platformError(event.data);
    if (!EVENT_TYPES.has(event.type)) continue;
    yield event;
    if (event.type === 'complete') return;
  }
  throw new ClocheError('stream_interrupted', 'The watch broke off; look at what matters and watch again.');
}
