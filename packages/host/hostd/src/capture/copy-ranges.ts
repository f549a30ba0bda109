import { Worker } from 'node:worker_threads';
import { answerOfWorker } from '@cloche/node-support';
import type { ByteRange } from '../linux/used-ranges.ts';

/** Digest of what was copied, and its bytes without blocks of zeros. */
export interface Copied {
  readonly digest: string;
  readonly bytes: number;
}

/** Ranges of a device, and the file that gets them. The descriptors stay the caller's. */
export interface CopyOfRanges {
  readonly ranges: readonly ByteRange[];
  readonly deviceFd: number;
  readonly imageFd: number;
}

/**
 * Copies ranges of a device to the same offsets of a file, in a thread of its own: hashing would occupy this one.
 * Resolves when the copy is on the disk. Rejects at the abort of `signal`, and then the thread has ended.
 */
export async function copyRanges(copy: CopyOfRanges, signal: AbortSignal): Promise<Copied> {
  signal.throwIfAborted();
  const worker = new Worker(new URL('copy-layer.ts', import.meta.url), { workerData: copy });
  // Sound: the thread sends nothing else.
  return (await answerOfWorker(worker, signal)) as Copied;
}
