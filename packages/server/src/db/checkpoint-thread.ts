/** The thread of `Checkpoints`: one checkpoint for each message. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

const database = new DatabaseSync(workerData as string);
// It writes nothing itself, so nothing else starts a checkpoint here.
database.exec('pragma synchronous = normal');
const checkpoint = database.prepare('pragma wal_checkpoint(passive)');

parentPort?.on('message', (message: 'checkpoint' | 'close') => {
  if (message === 'close') {
    database.close();
    parentPort?.close();
    return;
  }
  // Writers go on meanwhile; what they add is left in the log, which begins anew once all of it was brought over.
  checkpoint.get();
  parentPort?.postMessage('done');
});
