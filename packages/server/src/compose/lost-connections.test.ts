/** Requests while PostgreSQL closes the connections of its servers again and again, as a restart or a failover does. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { Pool } from 'pg';
import { openPreviewWorld, type PreviewWorld } from '../../testing/previews.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import type { Database } from '../db/database.ts';
import { openDatabase } from '../db/open-database.ts';

const CREATIONS = 24;
const ATTEMPTS = 1000;
const CUTS = 10;
const BETWEEN_CUTS_MS = 100;
const UNAVAILABLE = '503 unavailable';

/** Ends what every other connection is doing, wherever it is: in a statement, between two, or in a commit. */
const cut = (db: Database) =>
  sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`.execute(db);

describe('servers whose connections are lost', { skip: NEEDS_POSTGRES }, () => {
  let db: Database;
  let servers: [PreviewWorld, PreviewWorld];

  beforeEach(async () => {
    const settings = await testDatabaseSettings();
    const one = await openPreviewWorld(settings);
    servers = [one, await openPreviewWorld(settings, one.driver)];
    db = await openDatabase(settings.CLOCHE_DATABASE_URL ?? '');
  });
  afterEach(async () => {
    await db.destroy();
    for (const server of servers.toReversed()) await server.close();
  });

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

  it('answer nothing but unavailable, create no sandbox twice, and recover by themselves', async () => {
    const before = (await servers[0].call('GET', '/v1/sandboxes')).body.data.map(({ id }: { id: string }) => id);
    const answers = new Set<string>();
    const ids: string[] = [];
    let isOver = false;
    const cutting = (async () => {
      for (let count = 0; !isOver && (count < CUTS || !answers.has(UNAVAILABLE)); count += 1) {
        await delay(BETWEEN_CUTS_MS);
        await cut(db);
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

describe('connections that are lost', { skip: NEEDS_POSTGRES }, () => {
  it('end the process if nobody listens for their loss: the control', async () => {
    const { CLOCHE_DATABASE_URL: url = '' } = await testDatabaseSettings();
    await using db = await openDatabase(url);
    await using opened = new AsyncDisposableStack();
    const { on } = Pool.prototype;
    const restore = replace(Pool.prototype, {
      on(this: Pool, ...[event, listener]: Parameters<typeof on>) {
        return event === 'error' || event === 'connect' ? this : on.call(this, event, listener);
      },
    });
    opened.defer(restore);
    const uncaught: unknown[] = [];
    process.setUncaughtExceptionCaptureCallback((error) => uncaught.push(error));
    opened.defer(() => process.setUncaughtExceptionCaptureCallback(null));
    const unheard = await openDatabase(url);
    // Ended before the errors are let through again: a connection may report a second one.
    opened.defer(() => unheard.destroy());
    await cut(db);
    await eventually(() => uncaught.length > 0, { because: 'an error ends the process' });
    for (const error of uncaught) assert.match(String(error), /terminating connection|Connection terminated/);
  });
});
