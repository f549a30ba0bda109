import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from 'pg';
import { SOCKETS, urlOf } from '../../../../testing/postgres/postgres-server.ts';
import { DATABASE_KIND, openTestDatabase } from '../../../../testing/test-database.ts';
import { openDatabase } from '../open-database.ts';

const sockets = process.env[SOCKETS] ?? '';
const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

describe('opening a PostgreSQL database', { skip }, () => {
  let superuser: Client;
  before(async () => {
    superuser = new Client({ connectionString: urlOf(sockets, 'postgres', 'postgres') });
    await superuser.connect();
  });
  after(() => superuser.end());

  it('opening a PostgreSQL database says where no server answers, and not the password', async () => {
    const url = 'postgres://ada:secret@127.0.0.1:1/db';
    await assert.rejects(openDatabase(url), (error: Error) => {
      assert.match(
        error.message,
        /^PostgreSQL at 127\.0\.0\.1:1 cannot be used: .*; start it, or correct CLOCHE_DATABASE_URL$/,
      );
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
    await assert.rejects(openDatabase(urlOf('/nonexistent', 'db')), /PostgreSQL at \/nonexistent cannot be used/);
  });

  it('says which user the server refuses', async () => {
    await assert.rejects(openDatabase(urlOf(sockets, 'postgres', 'nobody_such')), /refuses the user "nobody_such"/);
  });

  it('opening a PostgreSQL database says how to create a database that is missing', async () => {
    const message = /has no database "missing"; create it: createdb --owner=cloche missing$/;
    await assert.rejects(openDatabase(urlOf(sockets, 'missing')), message);
  });

  it('opening a PostgreSQL database refuses a user who may not create tables, with the statement that mends it', async () => {
    await superuser.query('create role reader login');
    const mended = urlOf(sockets, 'of_reader', 'reader');
    await superuser.query('create database of_reader');
    await assert.rejects(openDatabase(mended), /the user "reader" may not create tables .*owner to "reader"$/);
    await superuser.query('alter database of_reader owner to reader');
    await (await openDatabase(mended)).destroy();
  });

  it('opening a PostgreSQL database refuses another encoding than UTF8', async () => {
    await superuser.query(
      "create database latin owner cloche template template0 encoding 'LATIN1' locale_provider libc locale 'C'",
    );
    await assert.rejects(
      openDatabase(urlOf(sockets, 'latin')),
      /has the encoding LATIN1; create it with the encoding UTF8/,
    );
  });

  it('opening a PostgreSQL database leaves no connection behind when it fails', async () => {
    await assert.rejects(openDatabase(urlOf(sockets, 'latin')));
    const connections = "select 1 from pg_stat_activity where datname = 'latin'";
    const isLeft = async () => (await superuser.query(connections)).rowCount === 0;
    await eventually(isLeft, { because: 'the server notices the end of a connection a little later' });
  });
});

describe('the tables', { skip }, () => {
  it('the tables have the same columns as those of SQLite', async () => {
    await using postgres = await openTestDatabase('postgresql');
    await using sqlite = await openTestDatabase('sqlite');
    const columnsOf = async (db: typeof sqlite) => {
      const tables = (await db.introspection.getTables()).filter(({ isView }) => !isView);
      return tables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column.name}`)).sort();
    };
    const columns = await columnsOf(postgres);
    assert.ok(columns.includes('sandboxes.created_at'));
    assert.deepEqual(columns, await columnsOf(sqlite));
  });
});
