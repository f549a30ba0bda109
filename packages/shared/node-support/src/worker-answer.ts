import type { Worker } from 'node:worker_threads';
import { onAbort } from './abort.ts';

/**
 * Resolves with the first message of a worker thread. Rejects with the error of the thread, with the signal's reason, or
 * when the thread ends without a message. The thread has ended when this settles.
 */
export async function answerOfWorker(worker: Worker, signal: AbortSignal): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  // These listeners stay: until `terminate` has ended it, a thread can still fail, and an 'error' event without a
  // listener ends the process.
  worker.on('error', reject).on('messageerror', reject).on('message', resolve);
  worker.on('exit', (code) => reject(new Error(`the thread ended with code ${code} and without an answer`)));
  using _ = onAbort(signal, () => reject(signal.reason));
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}
