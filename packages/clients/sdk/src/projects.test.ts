import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Project } from '@cloche/contract';
import { failing, json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { isClocheError } from './cloche-error.ts';

const PROJECT: Project = {
  id: 'prj_1',
  orgId: 'org_1',
  name: 'billing',
  isDefault: false,
  metadata: { team: 'a' },
  quotas: { liveSandboxes: 2 },
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
};

describe('projects', () => {
  it('projects are created, listed, read, changed and deleted', async () => {
    await using server = await startScriptedServer(({ method, path }) =>
      method === 'GET' && path.startsWith('/v1/projects?')
        ? json(200, { data: [PROJECT], hasMore: false })
        : json(method === 'POST' ? 201 : 200, { project: PROJECT }),
    );
    const { projects } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const { name, metadata, quotas } = PROJECT;
    assert.deepEqual(await projects.create(name, { metadata, quotas }), PROJECT);
    assert.deepEqual(await projects.list({ include: 'deleted' }), [PROJECT]);
    assert.deepEqual(await projects.get('prj_1'), PROJECT);
    assert.deepEqual(await projects.update('prj_1', { quotas: { previews: null } }), PROJECT);
    assert.deepEqual(await projects.delete('prj_1'), PROJECT);
    assert.deepEqual(
      server.requests.map(({ method, path }) => `${method} ${path}`),
      [
        'POST /v1/projects',
        'GET /v1/projects?include=deleted',
        'GET /v1/projects/prj_1',
        'PATCH /v1/projects/prj_1',
        'DELETE /v1/projects/prj_1',
      ],
    );
    const [created, , , changed] = server.requests;
    assert.deepEqual(created?.body, { name, metadata, quotas });
    assert.ok(created?.headers['idempotency-key']);
    assert.deepEqual(changed?.body, { quotas: { previews: null } });
  });

  it('projects say how many sandboxes are in the way of a deletion', async () => {
    const details = { liveSandboxes: 2, workspaceRuns: 0 };
    await using server = await startScriptedServer(() => failing('conflict', {}, details));
    const { projects } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    await assert.rejects(projects.delete('prj_1'), (error) => {
      assert.ok(isClocheError(error, 'conflict'));
      assert.deepEqual(error.details, details);
      return true;
    });
  });
});
