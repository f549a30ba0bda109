/** The worker thread of `Checkpoints`: runs a checkpoint for each message. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

const database = new DatabaseSync(workerData as string);
// This connection writes nothing, so it never starts an automatic checkpoint.
database.exec('pragma synchronous = normal');
const checkpoint = database.prepare('pragma wal_checkpoint(passive)');

parentPort?.on('message', (message: 'checkpoint' | 'close') => {
  if (message === 'close') {
    database.close();
    parentPort?.close();
    return;
  }
  // A passive checkpoint does not block writers. Frames that they add meanwhile stay in the log. After a complete copy
  // the log starts over.
  checkpoint.get();
  parentPort?.postMessage('done');
});
