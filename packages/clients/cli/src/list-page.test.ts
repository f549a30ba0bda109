import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../testing/run-in-process.ts';

describe('a list of the command line', () => {
  it('a list of the command line shows a page with --limit, says that more follow, and how to see them', async () => {
    const data = [sampleSandbox()];
    await using service = await startScriptedServer(({ path }) =>
      json(200, path.includes('cursor') ? { data, hasMore: false } : { data, hasMore: true, nextCursor: '1.ab.cd' }),
    );
    const first = await runInProcess(['sandbox', 'list', '--limit', '1'], service);
    assert.equal(first.stdout.split('\n').length, 3);
    const [, ...next] = /(--cursor) (\S+)\n$/.exec(first.stderr) ?? [];
    const second = await runInProcess(['sandbox', 'list', '--limit', '1', ...next], service);
    assert.deepEqual([second.stdout, second.stderr], [first.stdout, '']);
    assert.deepEqual(
      service.requests.map(({ path }) => path),
      ['/v1/sandboxes?limit=1', '/v1/sandboxes?limit=1&cursor=1.ab.cd'],
    );

    const asJson = await runInProcess(['sandbox', 'list', '--limit', '1', '--json'], service);
    assert.deepEqual(
      [JSON.parse(asJson.stdout), asJson.stderr],
      [{ data: JSON.parse(JSON.stringify(data)), hasMore: true, nextCursor: '1.ab.cd' }, ''],
    );
  });

  it('a list of the command line takes --limit and --cursor for everything that has pages, and passes them on', async () => {
    // Some commands look the sandbox up first.
    const answer = { data: [], hasMore: false, sandbox: sampleSandbox() };
    await using service = await startScriptedServer(() => json(200, answer));
    const lists = ['sandbox', 'project', 'artifact', 'key', 'secret', 'webhook', 'job', 'template'].map((name) => [
      name,
      'list',
    ]);
    lists.push(['context', 'list', 'sbx_1'], ['command', 'list', 'sbx_1'], ['files', 'ls', 'sbx_1:/workspace']);
    lists.push(['template', 'versions', 'a'], ['template', 'builds', 'a']);
    for (const list of lists) {
      const { exitCode, stderr } = await runInProcess([...list, '--limit', '7', '--cursor', 'c', '--json'], service);
      assert.equal(exitCode, 0, stderr);
      const { searchParams } = new URL(service.requests.at(-1)?.path ?? '', service.url);
      assert.deepEqual([searchParams.get('limit'), searchParams.get('cursor')], ['7', 'c'], list.join(' '));
    }
  });

  it('a list of the command line is filtered by id and time where the service does that, by a time or by how long ago', async () => {
    await using service = await startScriptedServer(() => json(200, { data: [], hasMore: false }));
    for (const noun of ['sandbox', 'job']) {
      const times = ['--created-after', '2026-01-31T09:00Z', '--created-before', '2h'];
      await runInProcess([noun, 'list', '--id-prefix', 'sbx_2t6h', ...times], service);
      const { searchParams } = new URL(service.requests.at(-1)?.path ?? '', service.url);
      assert.equal(searchParams.get('idPrefix'), 'sbx_2t6h');
      assert.equal(searchParams.get('createdAfter'), '2026-01-31T09:00:00.000Z');
      const agoMs = Date.now() - Date.parse(searchParams.get('createdBefore') ?? '');
      assert.ok(agoMs >= 7_200_000 && agoMs < 7_300_000, `${agoMs}`);
    }
    for (const wrong of ['yesterday', '', '2026-13-01', '5'])
      assert.equal((await runInProcess(['job', 'list', '--created-after', wrong], service)).exitCode, 2, wrong);
  });

  it('a list of the command line prints ids alone with --quiet', async () => {
    const data = [sampleSandbox(), sampleSandbox({ id: 'sbx_2' })];
    await using service = await startScriptedServer(() => json(200, { data, hasMore: false }));
    assert.equal((await runInProcess(['sandbox', 'list', '-q'], service)).stdout, 'sbx_1\nsbx_2\n');
  });

  it('a list of the command line refuses a limit that the service would refuse', async () => {
    for (const limit of ['0', '501', 'all']) {
      const { exitCode, stderr } = await runInProcess(['key', 'list', '--limit', limit]);
      assert.deepEqual([exitCode, /Give (1 to 500|a whole number)\./.test(stderr)], [2, true], stderr);
    }
  });
});
