import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { failing, json, type Script, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const project = {
  id: 'prj_1',
  orgId: 'org_1',
  name: 'billing\u001b[2J',
  isDefault: false,
  metadata: { team: 'a' },
  quotas: { liveSandboxes: 2, previews: null },
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
};

async function run(script: Script, ...args: string[]) {
  await using server = await startScriptedServer(script);
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(['project', ...args], { env })), requests: server.requests };
}
const always: Script = ({ method, path }) =>
  method === 'GET' && !path.includes('prj_')
    ? json(200, { data: [project], hasMore: false })
    : json(method === 'POST' ? 201 : 200, { project });

describe('cloche project', () => {
  it('cloche project prints the id of a new project, and nothing else on standard output', async () => {
    const options = ['--metadata', 'team=a', '--quota', 'liveSandboxes=2', '--quota', 'previews=none'];
    const { stdout, exitCode, requests } = await run(always, 'create', 'billing', ...options);
    assert.deepEqual([exitCode, stdout], [0, 'prj_1\n']);
    const { metadata, quotas } = project;
    assert.deepEqual(requests[0]?.body, { name: 'billing', metadata, quotas });
  });

  it('cloche project lists projects, the deleted ones with --all, without their control characters', async () => {
    const { stdout } = await run(always, 'list');
    assert.match(stdout, /^ID +NAME +STATE +CREATED +METADATA\nprj_1 +billing +open .* team=a\n$/);
    assert.ok(!stdout.includes('\u001b[2J'));
    const all = await run(always, 'list', '--all', '--json');
    assert.equal(all.requests[0]?.path, '/v1/projects?include=deleted');
    assert.deepEqual(JSON.parse(all.stdout), { data: [project], hasMore: false });
  });

  it('cloche project shows, changes and deletes projects', async () => {
    assert.match((await run(always, 'get', 'prj_1')).stdout, /quotas +liveSandboxes=2 previews=none\n/);
    const changed = await run(always, 'update', 'prj_1', '--name', 'new', '--quota', 'previews=none');
    assert.deepEqual(changed.requests[0]?.body, { name: 'new', quotas: { previews: null } });
    const deleted = await run(always, 'delete', 'prj_1', 'prj_2');
    assert.equal(deleted.stderr, 'prj_1 deleted\nprj_1 deleted\n');
    assert.deepEqual(
      deleted.requests.map(({ method, path }) => `${method} ${path}`),
      ['DELETE /v1/projects/prj_1', 'DELETE /v1/projects/prj_2'],
    );
    const lines = (await run(always, 'delete', 'prj_1', 'prj_2', '--json')).stdout.trim().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      [project, project],
    );
  });

  it('cloche project fails when the service refuses', async () => {
    const refusal = await run(
      [failing('conflict', {}, { liveSandboxes: 1, workspaceRuns: 0 })],
      'delete',
      'prj_1',
      '--json',
    );
    assert.equal(refusal.exitCode, 1);
    assert.equal(JSON.parse(refusal.stderr).error.details.liveSandboxes, 1);
  });

  it('says which quotas there are, and what can be changed', async () => {
    for (const [value, message] of [
      ['sandboxes=1', /liveSandboxes/],
      ['previews=-1', /NAME=NUMBER/],
      ['previews', /NAME=NUMBER/],
    ] as const) {
      const { exitCode, stderr } = await run(always, 'create', 'x', '--quota', value);
      assert.equal(exitCode, 2, value);
      assert.match(stderr, message);
    }
    assert.equal((await run(always, 'update', 'prj_1')).exitCode, 2);
  });
});
