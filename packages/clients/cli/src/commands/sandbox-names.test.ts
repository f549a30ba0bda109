import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, type Reply, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const NAMED = sampleSandbox({ status: 'ready', name: 'web-app' });

async function outcomeOf(line: string, answer: Reply) {
  await using server = await startScriptedServer(() => answer);
  const outcome = await runInProcess(line.split(' '), { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' } });
  return { ...outcome, sent: server.requests.map(({ method, path, body }) => [`${method} ${path}`, body] as const) };
}

describe('the name of a sandbox', () => {
  it('the name of a sandbox is given at its creation, and finds it', async () => {
    for (const [line, sent] of [
      ['sandbox create --no-wait --name web-app', ['POST /v1/sandboxes', { name: 'web-app' }]],
      ['sandbox get --name web-app', ['GET /v1/sandboxes/by-name/web-app', undefined]],
      ['sandbox get --name web-app --project prj_1', ['GET /v1/sandboxes/by-name/web-app?projectId=prj_1', undefined]],
    ] as const) {
      const outcome = await outcomeOf(line, json(200, { sandbox: NAMED }));
      assert.deepEqual([outcome.exitCode, outcome.sent], [0, [sent]], outcome.stderr);
    }
  });

  it('the name of a sandbox is shown, in lists where one has a name', async () => {
    const shown = await outcomeOf('sandbox get --name web-app', json(200, { sandbox: NAMED }));
    assert.match(shown.stdout, /^name +web-app$/m);
    const named = await outcomeOf('sandbox list --name web-app', json(200, { data: [NAMED], hasMore: false }));
    assert.deepEqual(named.sent, [['GET /v1/sandboxes?name=web-app', undefined]]);
    assert.match(named.stdout, /^ID +NAME +STATUS.*\nsbx_1 +web-app +ready/);
    const both = await outcomeOf('sandbox list', json(200, { data: [NAMED, sampleSandbox()], hasMore: false }));
    assert.match(both.stdout, /\nsbx_1 +- /);
    const none = await outcomeOf('sandbox list', json(200, { data: [sampleSandbox()], hasMore: false }));
    assert.match(none.stdout, /^ID +STATUS/);
  });

  it('the name of a sandbox stands in place of its id, not beside it', async () => {
    for (const line of ['sandbox get', 'sandbox get sbx_1 --name web-app']) {
      const { exitCode, stderr, sent } = await outcomeOf(line, json(200, { sandbox: NAMED }));
      assert.deepEqual([exitCode, sent], [2, []]);
      assert.match(stderr, /Give the id of a sandbox, or --name\./);
    }
  });
});
