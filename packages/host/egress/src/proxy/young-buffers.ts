import type { Readable } from 'node:stream';
import { exposedCollector } from '@cloche/node-support';

/** V8 starts to mark the whole heap after 64 MB of new buffers, so young ones are collected well before. */
const COLLECTED_AFTER_BYTES = 8 * 1024 * 1024;

const collect = exposedCollector();
let uncollectedBytes = 0;

/**
 * Has the buffers of a stream garbage-collected while they are young. Each chunk has a buffer that is soon unused.
 * Such buffers take almost no space in V8's own heap, so V8 would not collect young objects before it marks the whole
 * heap. That took half of egress' CPU time for a download.
 */
export function collectYoungBuffers<Source extends Readable>(source: Source): Source {
  return source.on('data', (chunk: Buffer) => {
    uncollectedBytes += chunk.length;
    if (uncollectedBytes < COLLECTED_AFTER_BYTES) return;
    uncollectedBytes = 0;
    collect({ type: 'minor' });
  });
}
