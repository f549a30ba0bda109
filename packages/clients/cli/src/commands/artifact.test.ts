import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import { exitOf, runCloche, startCloche } from '../../testing/run-cloche.ts';
import { runInProcess } from '../../testing/run-in-process.ts';

const artifact = { id: 'art_1', name: '../evil/report.csv', sizeBytes: 7, contentType: 'text/csv', sandboxId: 'sbx_1' };

describe('cloche artifact download', () => {
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
            else response.socket?.end();
          }
        : json(200, { artifact }),
    );
  const get = (url: string, ...args: string[]) => runInProcess(['artifact', 'download', 'art_1', ...args], { url });

  it('cloche artifact download writes to a named file, whole or not at all', async () => {
    const file = join(folder, 'here');
    writeFileSync(file, 'before');
    await using broken = await serve('cont');
    const outcome = await get(broken.url, file);
    assert.deepEqual(outcome, {
      exitCode: 1,
      stdout: '',
      stderr: 'error: The download broke off before its end; try again.\n',
    });
    assert.equal(readFileSync(file, 'utf8'), 'before');
    await using whole = await serve();
    const { exitCode, stdout } = await get(whole.url, file);
    assert.deepEqual([exitCode, stdout, readFileSync(file, 'utf8')], [0, '', 'content']);
    assert.deepEqual(readdirSync(folder), ['here']);
  });

  it('cloche artifact download makes the folders above it, and says with --json where it is', async () => {
    await using server = await serve();
    const file = join(folder, 'new/deep/file');
    const { exitCode, stdout, stderr } = await get(server.url, file, '--json');
    assert.deepEqual([exitCode, JSON.parse(stdout), stderr], [0, { to: file, bytes: 7 }, '']);
    assert.equal(readFileSync(file, 'utf8'), 'content');
  });

  it('says in one sentence why a file cannot be written, and leaves nothing', async () => {
    await using server = await serve();
    const long = join(folder, 'n'.repeat(256));
    assert.equal((await get(server.url, long)).stderr, `error: ${long} cannot be written: name too long.\n`);
    assert.equal(
      (await get(server.url, folder)).stderr,
      `error: ${folder} cannot be written: illegal operation on a directory.\n`,
    );
    assert.equal((await get(server.url, join(folder, 'n'.repeat(255)))).exitCode, 0);
    assert.deepEqual(readdirSync(folder), ['n'.repeat(255)]);
  });

  it('cloche artifact download leaves nothing when it is interrupted', async () => {
    await using server = await startScriptedServer(({ path }) =>
      path.endsWith('/content')
        ? (response) => void response.writeHead(200, { 'content-length': 7 }).write('cont')
        : json(200, { artifact }),
    );
    const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'k' };
    const child = startCloche(['artifact', 'download', 'art_1', join(folder, 'file')], { env });
    await eventually(() => readdirSync(folder).length > 0, { within: 60_000, because: 'the download has begun' });
    child.kill('SIGINT');
    assert.equal(await exitOf(child), 130);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('cloche artifact download writes to standard output for -', async () => {
    await using server = await serve();
    const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'k' };
    assert.equal((await runCloche(['artifact', 'download', 'art_1', '-'], { env })).stdout, 'content');
  });

  it('cloche artifact download uses the last part alone of the name that the artifact has, and replaces nothing by it', async () => {
    await using server = await serve();
    const [here, place] = [process.cwd(), join(folder, 'report.csv')];
    process.chdir(folder);
    try {
      assert.equal((await get(server.url)).exitCode, 0);
      assert.equal(readFileSync(place, 'utf8'), 'content');
      writeFileSync(place, 'mine');
      const { exitCode, stderr } = await get(server.url);
      assert.equal(exitCode, 1);
      assert.equal(stderr, 'error: report.csv already exists; name another file, or move the existing one away.\n');
      assert.equal(readFileSync(place, 'utf8'), 'mine');
      assert.equal(existsSync(join(folder, '../evil')), false);
      assert.deepEqual(readdirSync(folder), ['report.csv']);
    } finally {
      process.chdir(here);
    }
  });
});
