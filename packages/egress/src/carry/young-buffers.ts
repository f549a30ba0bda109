import type { Readable } from 'node:stream';
import { exposedCollector } from '@cloche/node-support';

/** V8 begins to mark the whole heap when 64 MB of buffers have come. */
const COLLECTED_AFTER_BYTES = 8 * 1024 * 1024;

const collect = exposedCollector();
let uncollectedBytes = 0;

/**
 * Has the buffers of what flows through collected while they are young. Each chunk has one, and is done with at once; as
 * they hold next to nothing of V8's own heap, V8 would not look at the young ones alone before it marked everything: half
 * of what egress computed for a download.
 */
export function collectsYoung<Source extends Readable>(source: Source): Source {
  return source.on('data', (chunk: Buffer) => {
    uncollectedBytes += chunk.length;
    if (uncollectedBytes < COLLECTED_AFTER_BYTES) return;
    uncollectedBytes = 0;
    collect({ type: 'minor' });
  });
}
