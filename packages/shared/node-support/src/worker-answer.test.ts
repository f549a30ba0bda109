import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { answerOfWorker } from './worker-answer.ts';

const forever = new AbortController().signal;
const threadOf = (source: string) =>
  new Worker(`const { parentPort } = require('node:worker_threads'); ${source}`, { eval: true });

/** Long enough that the thread is there and fails by itself if it is not ended. */
const FAILS_SOON = "setTimeout(() => { throw new Error('late'); }, 20);";

describe('the answer of a thread', () => {
  it('the answer of a thread is its first message, and the thread has ended then', async () => {
    const worker = threadOf('parentPort.postMessage(1); parentPort.postMessage(2); setInterval(() => 0, 1000);');
    assert.equal(await answerOfWorker(worker, forever), 1);
    assert.equal(worker.threadId, -1);
  });

  it('the answer of a thread is its error, or that it ended without an answer', async () => {
    await assert.rejects(answerOfWorker(threadOf("throw new Error('broken');"), forever), /broken/);
    const silent = threadOf('process.exit(13);');
    await assert.rejects(answerOfWorker(silent, forever), /ended with code 13 and without an answer/);
  });

  it('ends with the signal, and an error that follows ends nothing else', async () => {
    const reason = new Error('left');
    for (let count = 0; count < 5; count += 1) {
      const controller = new AbortController();
      const worker = threadOf(FAILS_SOON);
      worker.once('online', () => setTimeout(() => controller.abort(reason), 20));
      await assert.rejects(answerOfWorker(worker, controller.signal), (error: Error) =>
        /left|late/.test(error.message),
      );
    }
  });

  it('the answer of a thread is not changed by an error after it', async () => {
    const worker = threadOf("parentPort.postMessage('done'); throw new Error('late');");
    assert.match(String(await answerOfWorker(worker, forever).catch((error: Error) => error.message)), /done|late/);
  });
});
