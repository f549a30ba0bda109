/** The worker thread of `ArchiveJudge`: judges one archive. */
import { getPriority, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { InvalidArchiveError } from '@cloche/archive/archive-entry';
import type { Judgement } from './archive-judge.ts';
import { type ArchiveToJudge, judgeArchive } from './judge-archive.ts';

/** Below the thread that answers requests. */
const NICENESS = 10;
// On Linux, 0 stands for the calling thread. A service that was started with a lower priority may not raise it.
setPriority(0, Math.max(NICENESS, getPriority(0)));

const archive = workerData as ArchiveToJudge;
const judgement = await judgeArchive(archive).then(
  (measures): Judgement => ({ status: 'accepted', ...measures }),
  (error: unknown): Judgement => {
    if (error instanceof InvalidArchiveError) return { status: 'refused', why: error.message };
    throw error;
  },
);
parentPort?.postMessage(judgement);
