import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OrgId, operations } from '@cloche/contract';
import { fakeManifest } from '@cloche/testkit';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { credentialOf, DEFAULT_PROJECT, ORG, OTHER_PROJECT } from '../../../../testing/seeded-organizations.ts';
import type { AppError } from '../../../platform/base/app-error.ts';

const issuesOf = (error: AppError) => (error.details as { issues: { path: string; message: string }[] }).issues;

describe('creating a sandbox', () => {
  it('creating a sandbox takes the defaults of the contract', async () => {
    await using world = await openSandboxes();
    const sandbox = await world.create();
    assert.equal(sandbox.projectId, DEFAULT_PROJECT);
    assert.equal(sandbox.templateSlug, 'python-node');
    assert.equal(sandbox.ttlMs, 3_600_000);
    assert.deepEqual(sandbox.networkPolicy, { mode: 'unrestricted' });
    assert.deepEqual(sandbox.metadata, {});
    assert.equal(Date.parse(sandbox.expiresAt) - Date.parse(sandbox.createdAt), 3_600_000);
    assert.ok(!('destroyedAt' in sandbox) && !('idleTimeoutMs' in sandbox) && !('failureReason' in sandbox));
  });

  it('normalizes the network policy', async () => {
    await using world = await openSandboxes();
    const hosts = ['b.example', 'a.example', 'b.example'];
    const sandbox = await world.create({ networkPolicy: { mode: 'denylist', hosts } });
    assert.deepEqual(sandbox.networkPolicy, { mode: 'denylist', hosts: ['b.example', 'a.example'] });
  });

  it('creating a sandbox takes a template by slug or id, and a version of it by id', async () => {
    await using world = await openSandboxes();
    const bySlug = await world.create({ template: 'node' });
    const byId = await world.create({ template: bySlug.templateId });
    const pinned = await world.create({ templateVersionId: bySlug.templateVersionId });
    for (const one of [byId, pinned]) assert.equal(one.templateVersionId, bySlug.templateVersionId);
  });

  it('resolves the newest version unless another one is pinned', async () => {
    await using world = await openSandboxes();
    const old = await world.create();
    const newer = fakeManifest('python-node', { build: 2, builtAt: '2026-02-01T00:00:00.000Z' });
    world.driver.manifests = [...world.driver.manifests, newer];
    await world.crash();
    assert.equal((await world.create()).templateVersionId, newer.id);
    const pinned = await world.create({ templateVersionId: old.templateVersionId });
    assert.equal(pinned.templateVersionId, old.templateVersionId);
    const { data } = await world.call(operations.listTemplateVersions, { params: { template: 'python-node' } });
    assert.deepEqual(
      data.map(({ id }) => id),
      [newer.id, old.templateVersionId],
    );
  });

  it('creating a sandbox gives one sandbox to all attempts with one idempotency record', async () => {
    await using world = await openSandboxes();
    const attempts = Array.from({ length: 30 }, () => world.create({}, { idempotency: { recordId: 'idem_1' } }));
    const ids = new Set((await Promise.all(attempts)).map(({ id }) => id));
    assert.equal(ids.size, 1);
    assert.equal(world.driver.launches.length, 1);
  });

  it('creating a sandbox adopts what an attempt made whose server died', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const first = await world.create({}, { idempotency: { recordId: 'idem_1' } });
    world.driver.launchGate = undefined;
    await world.crash();
    const again = await world.create({}, { idempotency: { recordId: 'idem_1' } });
    assert.equal(again.id, first.id);
    assert.equal((await world.waitFor(first.id, 'ready')).status, 'ready');
    assert.equal(world.driver.instances().length, 1);
  });
});

describe('a creation that is refused', () => {
  const cases: [string, Record<string, unknown>, string, RegExp][] = [
    [
      'metadata over 4 KB',
      { metadata: { a: 'é'.repeat(512), b: 'é'.repeat(512), c: 'é'.repeat(512), d: 'é'.repeat(512) } },
      'body.metadata',
      /4100 bytes/,
    ],
    ['an environment over 32 KB', { env: { A: 'x'.repeat(32 * 1024) } }, 'body.env', /at most 32768/],
    ['a NUL in the environment', { env: { A: 'a\0b' } }, 'body.env.A', /NUL/],
    [
      'more memory than the operator allows',
      { resources: { memoryMb: 2048 } },
      'body.resources.memoryMb',
      /at most 1024/,
    ],
    [
      'a wrong host',
      { networkPolicy: { mode: 'allowlist', hosts: ['ok.example', 'https://x'] } },
      'body.networkPolicy.hosts.1',
      /URL/,
    ],
    [
      'hosts with a mode that takes none',
      { networkPolicy: { mode: 'deny-all', hosts: ['a.b'] } },
      'body.networkPolicy.hosts',
      /left out/,
    ],
    [
      'a version of another template',
      { template: 'node', templateVersionId: 'tplv_pythonnode1' },
      'body.templateVersionId',
      /version of "python-node"/,
    ],
  ];
  for (const [what, body, path, message] of cases) {
    it(`a creation that is refused names the field for ${what}`, async () => {
      await using world = await openSandboxes();
      await assert.rejects(world.create(body), (error: AppError) => {
        assert.equal(error.code, 'invalid_request');
        assert.deepEqual(
          issuesOf(error).map((issue) => issue.path),
          [path],
        );
        assert.match(issuesOf(error)[0]?.message ?? '', message);
        return true;
      });
      assert.deepEqual((await world.call(operations.listSandboxes, { query: { include: 'historical' } })).data, []);
    });
  }

  it('a creation that is refused names every wrong field at once', async () => {
    await using world = await openSandboxes();
    const body = { resources: { cpu: 9, pids: 9999 }, networkPolicy: { mode: 'allowlist' } };
    await assert.rejects(world.create(body), (error: AppError) => {
      const paths = issuesOf(error).map(({ path }) => path);
      assert.deepEqual(paths, ['body.resources.cpu', 'body.resources.pids', 'body.networkPolicy.hosts']);
      return true;
    });
  });

  it('a creation that is refused answers sandbox_ttl_exceeded over one hour, and takes one hour', async () => {
    await using world = await openSandboxes();
    await assert.rejects(world.create({ ttlMs: 3_600_001 }), {
      code: 'sandbox_ttl_exceeded',
      details: { maxTtlMs: 3_600_000 },
    });
    assert.equal((await world.create({ ttlMs: 3_600_000 })).ttlMs, 3_600_000);
  });

  it('a creation that is refused answers not_found for what there is not, and for what another organization has', async () => {
    await using world = await openSandboxes();
    const missing = [
      { projectId: 'prj_none' },
      { projectId: 'prj_foreign' },
      { template: 'ruby' },
      { template: 'tpl_none' },
      { templateVersionId: 'tplv_none' },
    ];
    for (const body of missing) await assert.rejects(world.create(body), { code: 'not_found' });
  });

  it("a creation that is refused answers forbidden for a project outside the key's, the default one included", async () => {
    await using world = await openSandboxes();
    const credential = credentialOf(undefined, [OTHER_PROJECT]);
    await assert.rejects(world.create({ projectId: DEFAULT_PROJECT }, { credential }), { code: 'forbidden' });
    await assert.rejects(world.create({}, { credential }), { code: 'forbidden', message: /body\.projectId/ });
    assert.equal((await world.create({ projectId: OTHER_PROJECT }, { credential })).projectId, OTHER_PROJECT);
  });

  it('a creation that is refused answers quota_exceeded when the organization has all that it may, and counts others apart', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 2 });
    const results = await Promise.allSettled(Array.from({ length: 5 }, () => world.create()));
    const made = results.filter(({ status }) => status === 'fulfilled');
    assert.equal(made.length, 2);
    await assert.rejects(world.create(), {
      code: 'quota_exceeded',
      details: { quota: 'liveSandboxes', limit: 2, used: 2 },
    });
    await world.create({}, { credential: credentialOf('org_2' as OrgId) });
    const [first] = (await world.call(operations.listSandboxes)).data;
    assert.ok(first);
    await world.kill(first.id);
    await world.create();
  });
});
