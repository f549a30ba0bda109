/** Requests while PostgreSQL closes the connections of its servers again and again, as a restart or a failover does. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { openPreviewWorld, type PreviewWorld } from '../../testing/previews.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import type { Database } from '../platform/db/database.ts';
import { openDatabase } from '../platform/db/open-database.ts';

const CREATIONS = 24;
const ATTEMPTS = 1000;
const CUTS = 10;
const BETWEEN_CUTS_MS = 100;
const UNAVAILABLE = '503 unavailable';

describe('servers whose connections are lost', { skip: NEEDS_POSTGRES }, () => {
  let db: Database;
  let servers: [PreviewWorld, PreviewWorld];

  beforeEach(async () => {
    const database = await testDatabaseSettings();
    const one = await openPreviewWorld(database);
    servers = [one, await openPreviewWorld(database, one.driver)];
    db = await openDatabase(database.CLOCHE_DATABASE_URL ?? '');
  });
  afterEach(async () => {
    await db.destroy();
    for (const server of servers.toReversed()) await server.close();
  });

  /** Ends what every server is doing, wherever it is: in a statement, between two, or in a commit. */
  const cut = () =>
    sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`.execute(db);

  /** Repeats a creation with its key, as a client does, until it succeeds. Notes every answer. */
  async function create(index: number, answers: Set<string>): Promise<string> {
    for (let attempt = index; attempt < index + ATTEMPTS; attempt += 1) {
      const { status, body } = await servers[attempt % 2 ? 1 : 0].call('POST', '/v1/sandboxes', {}, `key ${index}`);
      if (status === 201) return body.sandbox.id;
      answers.add(`${status} ${body.error.code}`);
      await delay(20);
    }
    throw new Error(`no success: ${[...answers].join(', ')}`);
  }

  it('servers whose connections are lost answer nothing but unavailable, create no sandbox twice, and recover by themselves', async () => {
    const before = (await servers[0].call('GET', '/v1/sandboxes')).body.data.map(({ id }: { id: string }) => id);
    const answers = new Set<string>();
    const ids: string[] = [];
    let isOver = false;
    const cutting = (async () => {
      for (let count = 0; !isOver && (count < CUTS || !answers.has(UNAVAILABLE)); count += 1) {
        await delay(BETWEEN_CUTS_MS);
        await cut();
      }
    })();
    // More rounds if no cut has met a request.
    while (!answers.has(UNAVAILABLE)) {
      const round = Array.from({ length: CREATIONS }, (_, index) => create(ids.length + index, answers));
      ids.push(...(await Promise.all(round)));
    }
    isOver = true;
    await cutting;
    answers.delete(UNAVAILABLE);
    // A claim whose commit was cut off is given up by a later beat of its server.
    answers.delete('409 idempotency_request_in_progress');
    assert.deepEqual([...answers], []);
    assert.equal(new Set(ids).size, ids.length);
    for (const server of servers) {
      let listed: string[] = [];
      const recovers = async () => {
        const { status, body } = await server.call('GET', '/v1/sandboxes?include=historical');
        if (status === 200) listed = body.data.map(({ id }: { id: string }) => id);
        else assert.equal(body.error.code, 'unavailable');
        return status === 200;
      };
      await eventually(recovers, { because: 'lost connections are replaced' });
      // None is lost, and none was created twice.
      assert.deepEqual(listed.toSorted(), [...before, ...ids].toSorted());
    }
  });
});
