import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { runCloche } from '../testing/run-cloche.ts';

const artifact = { id: 'art_1', name: '../evil/report.csv', sizeBytes: 7, contentType: 'text/csv', sandboxId: 'sbx_1' };

describe('cloche artifact get', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-cli-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** @param sent how much of the content the service sends */
  const serve = (sent = 'content') =>
    startScriptedServer(({ path }) =>
      path.endsWith('/content')
        ? (response) => {
            response.writeHead(200, { 'content-type': 'text/csv', 'content-length': 7 });
            response.write(sent);
            if (sent.length === 7) response.end();
            else response.destroy();
          }
        : json(200, { artifact }),
    );
  const get = (url: string, ...args: string[]) =>
    runCloche(['artifact', 'get', 'art_1', ...args], { env: { CLOCHE_URL: url, CLOCHE_API_KEY: 'k' } });

  it('writes to a named file, whole or not at all', async () => {
    const file = join(folder, 'here');
    writeFileSync(file, 'before');
    await using broken = await serve('cont');
    assert.equal((await get(broken.url, file)).exitCode, 1);
    assert.equal(readFileSync(file, 'utf8'), 'before');
    await using whole = await serve();
    const { exitCode, stdout } = await get(whole.url, file);
    assert.deepEqual([exitCode, stdout, readFileSync(file, 'utf8')], [0, '', 'content']);
    assert.deepEqual(readdirSync(folder), ['here']);
  });

  it('writes to standard output for -', async () => {
    await using server = await serve();
    assert.equal((await get(server.url, '-')).stdout, 'content');
  });

  it('uses the last part alone of the name that the artifact has, and replaces nothing by it', async () => {
    await using server = await serve();
    const [here, place] = [process.cwd(), join(folder, 'report.csv')];
    process.chdir(folder);
    try {
      assert.equal((await get(server.url)).exitCode, 0);
      assert.equal(readFileSync(place, 'utf8'), 'content');
      writeFileSync(place, 'mine');
      assert.equal((await get(server.url)).exitCode, 1);
      assert.equal(readFileSync(place, 'utf8'), 'mine');
      assert.equal(existsSync(join(folder, '../evil')), false);
      assert.deepEqual(readdirSync(folder), ['report.csv']);
    } finally {
      process.chdir(here);
    }
  });
});
