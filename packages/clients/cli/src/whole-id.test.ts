import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { failing, json, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../testing/run-in-process.ts';

const WHOLE = 'sbx_2t6h456789abcdefghij';
const OTHER = 'sbx_2t6hzzzzzzzzzzzzzzzz';

/** A service with sandboxes of these ids; the ended ones are listed only with `include`. */
function serviceOf(live: readonly SandboxId[], ended: readonly SandboxId[] = []) {
  return startScriptedServer(({ path }) => {
    const { pathname, searchParams } = new URL(path, 'http://x');
    if (pathname !== '/v1/sandboxes')
      return json(200, { sandbox: sampleSandbox({ id: pathname.split('/')[3] as SandboxId }) });
    const ids = searchParams.get('include') === 'historical' ? [...live, ...ended] : live;
    const data = ids
      .filter((id) => id.startsWith(searchParams.get('idPrefix') ?? ''))
      .map((id) => sampleSandbox({ id }));
    return json(200, { data: data.slice(0, Number(searchParams.get('limit'))), hasMore: false });
  });
}

async function asked(ids: Parameters<typeof serviceOf>, args: readonly string[]) {
  await using service = await serviceOf(...ids);
  const outcome = await runInProcess(args, service);
  return { ...outcome, paths: service.requests.map(({ path }) => path) };
}

describe('a short id', () => {
  for (const text of ['2t6h', 'sbx_2t6h', '2t6h4567', 'sbx_2t6h456789abcdefghi', '@last', '-'])
    it(`${text} means the sandbox whose id begins so, or the newest`, async () => {
      const { exitCode, stderr, paths } = await asked([[WHOLE]], ['sandbox', 'get', text]);
      assert.deepEqual([exitCode, stderr], [0, '']);
      assert.equal(paths.at(-1), `/v1/sandboxes/${WHOLE}`);
    });

  it('means an ended sandbox where no live one begins so', async () => {
    const { paths } = await asked([['sbx_aaaa456789abcdefghij'], [WHOLE]], ['sandbox', 'get', '2t6h']);
    assert.equal(paths.at(-1), `/v1/sandboxes/${WHOLE}`);
    assert.equal(paths.length, 3);
  });

  it('a short id is refused with the ids it may mean, unless there is one', async () => {
    const { exitCode, stderr } = await asked([[WHOLE, OTHER]], ['sandbox', 'delete', '2t6h']);
    assert.deepEqual(
      [exitCode, stderr],
      [2, `error: More than one id begins with "2t6h"; write more of it: ${WHOLE}, ${OTHER}.\n`],
    );
    const one = await asked([[WHOLE, OTHER]], ['sandbox', 'delete', '2t6hz']);
    assert.deepEqual([one.exitCode, one.paths.at(-1)], [0, `/v1/sandboxes/${OTHER}`]);
  });

  for (const text of [WHOLE, '2t6', 'sbx_2t6', 'wrun_2t6h', '2T6H', 'sbx_9', 'a/../b'])
    it(`a short id is not looked for in ${text}, which goes to the service as it is`, async () => {
      const { paths } = await asked([[WHOLE]], ['sandbox', 'get', text]);
      assert.deepEqual(paths, [`/v1/sandboxes/${encodeURIComponent(text)}`]);
    });

  it('a short id goes to the service as it is where the key may not list, or nothing begins so', async () => {
    await using service = await startScriptedServer(({ path }) =>
      failing(path.includes('?') ? 'forbidden' : 'not_found'),
    );
    await runInProcess(['sandbox', 'get', '2t6h'], service);
    assert.equal(service.requests.at(-1)?.path, '/v1/sandboxes/2t6h');
    assert.equal((await asked([[OTHER]], ['sandbox', 'get', 'aaaa'])).paths.at(-1), '/v1/sandboxes/aaaa');
  });

  it('says that there is no sandbox yet for the last one', async () => {
    const { exitCode, stderr } = await asked([[]], ['sandbox', 'get', '@last']);
    assert.deepEqual([exitCode, stderr], [1, 'error: There is no sandbox yet.\n']);
  });

  it('a short id is taken for every kind of id, alone or among several, and inside a sandbox', async () => {
    const tail = '2t6h456789abcdefghij';
    const kinds = { job: 'wrun_', secret: 'sec_', webhook: 'whk_', key: 'key_', project: 'prj_', artifact: 'art_' };
    for (const [noun, prefix] of Object.entries(kinds)) {
      await using service = await startScriptedServer(() =>
        json(200, { data: [{ id: `${prefix}${tail}` }], hasMore: false }),
      );
      await runInProcess([noun, noun === 'job' ? 'cancel' : 'delete', '2t6h'], service);
      assert.match(service.requests.at(-1)?.path ?? '', new RegExp(`/${prefix}${tail}$`), noun);
    }
    await using service = await startScriptedServer(({ path }) =>
      json(200, {
        data: [{ id: path.includes('/commands') ? `cmd_${tail}` : WHOLE }, { id: `cmd_zz${tail}` }],
        hasMore: false,
      }),
    );
    await runInProcess(['logs', '@last', '2t6h'], service);
    assert.equal(service.requests.at(-1)?.path, `/v1/sandboxes/${WHOLE}/commands/cmd_${tail}`);
  });
});
