import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import type { CheckpointSettings } from './checkpoints.ts';
import { NodeSqliteDatabase } from './node-sqlite.ts';

const PAGE_BYTES = 4096;

describe('the log of a database', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-db-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  function open(name: string, settings: Omit<CheckpointSettings, 'onFailure'>) {
    const file = join(folder, name);
    const database = new NodeSqliteDatabase(file, settings);
    database.prepare('create table notes (text text)').run([]);
    const insert = database.prepare('insert into notes values (?)');
    const write = (count: number) => {
      for (let index = 0; index < count; index++) insert.run(['x'.repeat(PAGE_BYTES / 2)]);
    };
    const pagesOf = (path: string) => statSync(path).size / PAGE_BYTES;
    return {
      write,
      filePages: () => pagesOf(file),
      logPages: () => pagesOf(`${file}-wal`),
      [Symbol.dispose]: () => database.close(),
    };
  }

  it('the log of a database is checkpointed into its file while the database is open, by no writer', async () => {
    using database = open('file.db', { everyWrites: 100 });
    const before = database.filePages();
    database.write(100);
    // The writer has not made a checkpoint, and the checkpoint thread has not started yet.
    assert.equal(database.filePages(), before);
    await eventually(() => database.filePages() > before, { within: 30_000, because: 'the log reaches the file' });
  });

  it('the log of a database has an end even where writes leave the thread no time', () => {
    using database = open('busy.db', { everyWrites: 100 });
    let writes = 0;
    // Writes in one turn of the event loop until the log has clearly fewer pages than were written. Each write adds at
    // least one page, even if a slow disk keeps the thread busy.
    while (database.logPages() > writes - 5000) {
      assert.ok(writes < 200_000, `${database.logPages()} pages`);
      database.write(1000);
      writes += 1000;
    }
  });
});
