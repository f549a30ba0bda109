import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { type Outcome, runCloche } from '@cloche/cli/testing';

let dataDir: string;
let serverDir: string;
before(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'cloche-migrate-'));
  serverDir = join(dataDir, 'server');
  mkdirSync(serverDir, { mode: 0o700 });
});
after(() => rmSync(dataDir, { recursive: true }));

const cloche = (...args: string[]): Promise<Outcome> => runCloche(args, { env: { CLOCHE_DATA_DIR: dataDir } });

/** Locks the database as a server does while it runs. */
function asServer(): Disposable {
  const lock = new DatabaseSync(join(serverDir, 'cloche.db-lock'));
  lock.exec('begin exclusive');
  return { [Symbol.dispose]: () => lock.close() };
}

describe('cloche migrate', () => {
  it('cloche migrate creates the tables, says which migrations it applied, and then has nothing to do', async () => {
    const first = await cloche('migrate', '--json');
    assert.equal(first.stderr, '');
    const report = JSON.parse(first.stdout);
    assert.deepEqual([report.database, report.waiting, report.newer], ['sqlite', [], []]);
    assert.equal(report.applied[0], '040-first-release');
    assert.equal(report.applied.at(-1), report.schema);
    const again = await cloche('migrate');
    assert.equal(again.stdout, `nothing to do: the database has the schema ${report.schema}\n`);
    const db = new DatabaseSync(join(serverDir, 'cloche.db'));
    assert.deepEqual(db.prepare('select id from orgs').all(), []);
    db.close();
  });

  it('cloche migrate changes nothing in a database of version 0.1.0, and names the remedy for one that is older', async () => {
    const recordLast = (name: string) => {
      using db = new DatabaseSync(join(serverDir, 'cloche.db'));
      db.prepare('update kysely_migration set name = ? where rowid = 1').run(name);
    };
    recordLast('039-mcp-subscriptions-expand');
    assert.match((await cloche('migrate')).stdout, /^nothing to do: /);
    recordLast('030-lists-expand');
    const { exitCode, stderr } = await cloche('migrate');
    recordLast('040-first-release');
    assert.equal(exitCode, 1);
    assert.match(
      stderr,
      /^error: An early version 0\.1\.0 .* up to 030-lists-expand; start the last version 0\.1\.0 once/,
    );
  });

  it('cloche migrate refuses while the server runs, and a database that a newer version has changed', async () => {
    {
      using _ = asServer();
      const { exitCode, stderr } = await cloche('migrate');
      assert.equal(exitCode, 1);
      assert.match(stderr, /^error: Another server, process \d+, uses the database .*stop the other one/);
    }
    const db = new DatabaseSync(join(serverDir, 'cloche.db'));
    db.exec("insert into kysely_migration values ('999-gone-contract', '2100-01-01T00:00:00.000Z')");
    const { exitCode, stderr } = await cloche('migrate', '--json');
    db.exec("delete from kysely_migration where name = '999-gone-contract'");
    db.close();
    assert.equal(exitCode, 1);
    assert.match(JSON.parse(stderr).error.message, /a newer version .*\(999-gone-contract\)/i);
  });

  it('cloche migrate leaves files that the user of the server owns', {
    skip: process.getuid?.() !== 0 && 'takes root',
  }, async () => {
    const other = mkdtempSync(join(tmpdir(), 'cloche-migrate-'));
    try {
      mkdirSync(join(other, 'server'));
      chmodSync(other, 0o711);
      chownSync(join(other, 'server'), 65_534, 65_534);
      await runCloche(['migrate'], { env: { CLOCHE_DATA_DIR: other } });
      for (const name of ['cloche.db', 'cloche.db-lock'])
        assert.equal(statSync(join(other, 'server', name)).uid, 65_534);
    } finally {
      rmSync(other, { recursive: true });
    }
  });
});

describe('cloche admin copy-database', () => {
  const copy = (...args: string[]) => cloche('admin', 'copy-database', ...args);

  it('cloche admin copy-database asks for a target', async () => {
    const { exitCode, stderr } = await copy();
    assert.deepEqual([exitCode, stderr], [2, 'error: Name the PostgreSQL database: --to, or CLOCHE_DATABASE_URL.\n']);
  });

  it('cloche admin copy-database reads the target from standard input, and warns of a password in an argument', async () => {
    const secret = 'postgres://cloche:s3cret@127.0.0.1:1/cloche';
    const env = { CLOCHE_DATA_DIR: dataDir };
    const piped = await runCloche(['admin', 'copy-database', '--to', '-'], { env, input: `${secret}\n` });
    assert.match(piped.stderr, /^error: PostgreSQL at 127\.0\.0\.1:1 cannot be used/);
    const { stderr } = await copy('--to', secret);
    assert.match(stderr, /other users of this machine can see a password in an argument; use --to -/);
    assert.doesNotMatch(piped.stderr + stderr, /s3cret/);
  });

  it('says which direction it copies in', async () => {
    const { stderr } = await copy('--from', 'postgres://a@b/c', '--to', 'sqlite:/x');
    assert.match(stderr, /^error: A copy is made from SQLite; name its file/);
    assert.match((await copy('--to', 'sqlite:/x')).stderr, /^error: A copy is made to PostgreSQL; name its database/);
    assert.match((await copy('--from', 'sqlite:/nowhere', '--to', 'postgres://a@b/c')).stderr, /no database \/nowhere/);
  });

  it('cloche admin copy-database refuses while the server runs, and after it was killed with requests in its journal', async () => {
    const to = ['--to', 'postgres://cloche@127.0.0.1:1/cloche'];
    {
      using _ = asServer();
      assert.match((await copy(...to)).stderr, /^error: Another server, process \d+, uses the database/);
    }
    writeFileSync(join(serverDir, 'idempotency-journal'), '{}\n');
    assert.match((await copy(...to)).stderr, /^error: The server was killed.* start it once more with SQLite/);
    rmSync(join(serverDir, 'idempotency-journal'));
  });

  it('says which server it does not reach', async () => {
    const { exitCode, stderr } = await copy('--to', 'postgres://cloche@127.0.0.1:1/cloche', '--json');
    assert.equal(exitCode, 1);
    assert.match(JSON.parse(stderr).error.message, /^PostgreSQL at 127\.0\.0\.1:1 cannot be used: .*start it, or/);
  });
});
