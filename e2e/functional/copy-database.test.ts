import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { type TestPostgres, testPostgres } from '../support/postgres.ts';
import { type OwnService, testService } from '../support/service.ts';

const API_KEY = 'a key that both databases know';

let postgres: TestPostgres;
let dataDir: string;
let service: OwnService;
before(async () => {
  postgres = await testPostgres();
  dataDir = mkdtempSync(join(tmpdir(), 'cloche-e2e-'));
  chmodSync(dataDir, 0o711);
  service = await testService({}, dataDir, { apiKey: API_KEY, servers: 1 });
});
after(async () => {
  await service?.close();
  await postgres?.close();
});

const copyDatabase = (to: string, ...options: string[]) =>
  execa(process.execPath, ['packages/clients/cli/bin/cloche.mjs', 'admin', 'copy-database', '--to', to, ...options], {
    env: { CLOCHE_DATA_DIR: dataDir, CLOCHE_CONFIG_FILE: '/dev/null' },
    reject: false,
  });

describe('a database that is copied to PostgreSQL', () => {
  it('a database that is copied to PostgreSQL is refused while its server runs, and then has sandboxes with their variables, and every answer for replay', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'kept = 41');
    const path = `/v1/sandboxes/${id}/code/runs`;
    const body = { code: 'kept += 1; kept', language: 'python' };
    const first = await service.api.request('POST', path, { body, key: 'before-the-copy' });
    assert.equal(first.status, 200);

    const to = await postgres.createDatabase('copied');
    const early = await copyDatabase(to);
    assert.equal(early.exitCode, 1);
    assert.match(early.stderr, /^error: Another server, process \d+, uses the database/);

    await service.stop();
    const copied = await copyDatabase(to, '--json');
    assert.equal(copied.stderr, '');
    const report = JSON.parse(copied.stdout);
    assert.equal(report.copied, true);
    assert.equal(report.tables.find(({ name }: { name: string }) => name === 'sandboxes').rows, 1);
    assert.match((await copyDatabase(to)).stdout, /^nothing to do: the target has exactly these rows/);

    service = await testService({ CLOCHE_DATABASE_URL: to }, dataDir, { apiKey: API_KEY, servers: 1 });
    const again = await service.api.request('POST', path, { body, key: 'before-the-copy' });
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
    assert.equal((await service.api.run(id, 'kept')).outputs[0]?.value, '42');
    const used = await copyDatabase(to);
    assert.match(used.stderr, /^error: A server uses the target/);
  });
});
