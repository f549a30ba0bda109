import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { OrgId } from '@cloche/contract';
import { answerOfWorker, Deadline, KeyedQueue, Semaphore } from '@cloche/node-support';
import type { ArchiveMeasures, ArchiveToJudge } from './judge-archive.ts';

/** Longest time to judge one archive. An archive of 5 GiB that fills a disk of 10 GiB takes less than a minute. */
const JUDGE_MS = 5 * 60_000;
/**
 * Heap limit of a worker thread. The tree of an archive has at most 64 MiB of paths, and 400,000 entries and
 * directories.
 */
const HEAP_MB = 256;
const YOUNG_HEAP_MB = 16;

/** The result for an archive; `why` names the entry and is a clause without a period. */
export type Judgement =
  | ({ readonly status: 'accepted' } & ArchiveMeasures)
  | { readonly status: 'refused'; readonly why: string };

export interface ArchiveJudgeOptions {
  /** Archives that are judged at the same time. */
  readonly concurrency?: number;
  readonly judgeMs?: number;
  readonly heapMb?: number;
}

/**
 * Judges uploaded archives in worker threads. Their number, memory and time are limited, so that no archive delays
 * other requests.
 *
 * SECURITY: an archive is untrusted. The thread that reads it runs as the server's unprivileged user and cannot block
 * the server's event loop; held by "does not delay the event loop" in archive-judge.test.ts.
 */
export class ArchiveJudge {
  /**
   * Judges one archive of an organization at a time, so that many archives of one organization do not delay the first
   * of another.
   */
  readonly #byOrganization = new KeyedQueue<OrgId>();
  readonly #threads: Semaphore;
  readonly #options: Required<Pick<ArchiveJudgeOptions, 'judgeMs' | 'heapMb'>>;

  constructor({ concurrency = defaultConcurrency(), judgeMs = JUDGE_MS, heapMb = HEAP_MB }: ArchiveJudgeOptions = {}) {
    this.#threads = new Semaphore(concurrency);
    this.#options = { judgeMs, heapMb };
  }

  /** Waits for a thread and judges the archive. Rejects with the signal's reason if the signal aborts first. */
  judge(archive: ArchiveToJudge, orgId: OrgId, signal: AbortSignal): Promise<Judgement> {
    return this.#byOrganization.run(orgId, () => this.#threads.run(signal, () => this.#judge(archive, signal)));
  }

  async #judge(archive: ArchiveToJudge, signal: AbortSignal): Promise<Judgement> {
    const { judgeMs, heapMb } = this.#options;
    using deadline = new Deadline(judgeMs, signal);
    const worker = new Worker(new URL('./judge-thread.ts', import.meta.url), {
      workerData: archive,
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    });
    try {
      // Sound: the thread sends nothing else.
      return (await answerOfWorker(worker, deadline.signal)) as Judgement;
    } catch (error) {
      signal.throwIfAborted();
      if (deadline.endedBy === 'timeout') return refused(`checking it takes more than ${judgeMs / 1000} seconds`);
      if (isOutOfMemory(error)) return refused('checking it takes too much memory');
      throw error;
    }
  }
}

/** Leaves a processor to the thread that answers requests. */
function defaultConcurrency(): number {
  return Math.max(1, availableParallelism() - 1);
}

function refused(why: string): Judgement {
  return { status: 'refused', why: `${why}; send one with fewer entries` };
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
}
