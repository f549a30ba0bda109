import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Operation, operations } from '@cloche/contract';
import { failing, json, sampleSandbox, sampleWorkspaceRun, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { isClocheError } from './cloche-error.ts';

const IDS = ['sbx_5', 'sbx_4', 'sbx_3', 'sbx_2', 'sbx_1'] as const;

/** Serves lists of sandboxes. A cursor is the index of the first entry of its page. */
async function startService() {
  const server = await startScriptedServer(({ path }) => {
    const { searchParams } = new URL(path, 'http://x');
    const from = Number(searchParams.get('cursor') ?? 0);
    const to = from + Number(searchParams.get('limit') ?? IDS.length);
    const data = IDS.slice(from, to).map((id) => sampleSandbox({ id }));
    return json(200, { data, ...(to < IDS.length ? { hasMore: true, nextCursor: String(to) } : { hasMore: false }) });
  });
  const { sandboxes } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  const queries = () => server.requests.map(({ path }) => Object.fromEntries(new URL(path, 'http://x').searchParams));
  return Object.assign(server, { sandboxes, queries });
}

const idsOf = (entries: readonly { id: string }[]) => entries.map(({ id }) => id);

describe('a list', () => {
  it('a list is an array of all entries, requested once', async () => {
    await using service = await startService();
    const list = service.sandboxes.list();
    const all = await list;
    assert.ok(Array.isArray(all));
    assert.deepEqual([idsOf(all), all.hasMore, all.nextCursor], [IDS, false, undefined]);
    assert.equal(await list, all);
    assert.deepEqual(service.queries(), [{}]);
  });

  it('a list is one page with a limit, which says how to request the next', async () => {
    await using service = await startService();
    const first = await service.sandboxes.list({ limit: 3 });
    assert.deepEqual([idsOf(first), first.hasMore], [IDS.slice(0, 3), true]);
    const second = await service.sandboxes.list({ limit: 3, cursor: first.nextCursor });
    assert.deepEqual([idsOf(second), second.hasMore, second.nextCursor], [IDS.slice(3), false, undefined]);
  });

  it('a list yields every entry to a loop, a page at a time, with its filters in each request', async () => {
    await using service = await startService();
    const filter = { metadata: { team: 'blue' }, idPrefix: 'sbx_abcd', createdAfter: new Date(0) };
    const seen: string[] = [];
    const requests: number[] = [];
    for await (const { id } of service.sandboxes.list({ ...filter, limit: 2 })) {
      seen.push(id);
      requests.push(service.requests.length);
    }
    assert.deepEqual([seen, requests], [IDS, [1, 1, 2, 2, 3]]);
    const sent = {
      'metadata.team': 'blue',
      idPrefix: 'sbx_abcd',
      createdAfter: '1970-01-01T00:00:00.000Z',
      limit: '2',
    };
    assert.deepEqual(service.queries(), [sent, { ...sent, cursor: '2' }, { ...sent, cursor: '4' }]);
  });

  it('a list has a limit in a loop that gives none, and begins after the cursor that it gives', async () => {
    await using service = await startService();
    assert.deepEqual(idsOf(await Array.fromAsync(service.sandboxes.list({ cursor: '3' }))), IDS.slice(3));
    assert.deepEqual(Object.keys(service.queries()[0] ?? {}).sort(), ['cursor', 'limit']);
  });

  it('a list requests nothing before it is used, and nothing more after its loop is left', async () => {
    await using service = await startService();
    const list = service.sandboxes.list({ limit: 1 });
    assert.equal(service.requests.length, 0);
    for await (const { id } of list) if (id === IDS[1]) break;
    assert.equal(service.requests.length, 2);
  });

  it('a list rejects as a promise does, whether it is awaited or in a loop', async () => {
    await using server = await startScriptedServer(() => failing('forbidden'));
    const { sandboxes } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    await assert.rejects(sandboxes.list(), { code: 'forbidden' });
    await assert.rejects(Array.fromAsync(sandboxes.list()), { code: 'forbidden' });
    assert.equal(await sandboxes.list().catch((error) => isClocheError(error, 'forbidden')), true);
    let isOver = false;
    const over = sandboxes.list().finally(() => {
      isOver = true;
    });
    await assert.rejects(over, { code: 'forbidden' });
    assert.ok(isOver);
  });

  it('a list has pages in every collection of the client', async () => {
    await using server = await startScriptedServer(({ path }) => {
      if (path === '/v1/sandboxes/sbx_1') return json(200, { sandbox: sampleSandbox() });
      if (path === '/v1/workspace-runs/wrun_1') return json(200, { workspaceRun: sampleWorkspaceRun() });
      return json(200, { data: [], hasMore: false });
    });
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const sandbox = await cloche.sandboxes.get('sbx_1');
    const run = await cloche.workspaceRuns.get('wrun_1');
    const before = server.requests.length;
    const page = { limit: 2, cursor: 'c' };
    const { apiKeys, artifacts, projects, sandboxes, secrets, templates, webhooks, workspaceRuns } = cloche;
    await Promise.all([
      ...[apiKeys, artifacts, projects, sandboxes, secrets, templates, webhooks, workspaceRuns].map((collection) =>
        collection.list(page),
      ),
      ...[sandbox.artifacts, sandbox.commands, sandbox.contexts, sandbox.previews].map((each) => each.list(page)),
      ...[sandbox.files.list('/workspace', page), templates.versions('a', page), templates.builds('a', page)],
      run.artifacts(page),
    ]);
    const paths = server.requests.slice(before).map(({ path }) => new URL(path, 'http://x'));
    for (const { searchParams } of paths)
      assert.deepEqual([searchParams.get('limit'), searchParams.get('cursor')], ['2', 'c']);
    const withPages = (Object.values(operations) as Operation[]).filter(
      ({ response }) => 'nextCursor' in ((response.schema as { properties?: object }).properties ?? {}),
    );
    const requested = withPages.filter(({ path }) => {
      const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`);
      return paths.some(({ pathname }) => pattern.test(pathname));
    });
    // This client lists previews by sandbox.
    const expected = withPages.filter(({ id }) => id !== 'listPreviews');
    assert.deepEqual(
      requested.map(({ id }) => id),
      expected.map(({ id }) => id),
    );
  });
});
