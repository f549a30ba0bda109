import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NETWORK_MODES, type OrgId, operations, type SandboxId, type SecretId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { openPauses, pause } from '../../../../testing/pauses.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { credentialOf, DEFAULT_PROJECT, ORG, OTHER_PROJECT } from '../../../../testing/seeded-organizations.ts';
import { NEEDS_POSTGRES, TestServers } from '../../../../testing/servers.ts';
import type { TestRequest } from '../../../../testing/test-request.ts';
import type { AppError } from '../../../platform/base/app-error.ts';

const put = (world: SandboxesWorld, name: string, body: object = {}, call: TestRequest = {}) =>
  world.call(operations.getOrCreateSandbox, { ...call, params: { name }, body });

const getNamed = async (world: SandboxesWorld, name: string, query: object = {}, call: TestRequest = {}) =>
  (await world.call(operations.getSandboxByName, { ...call, params: { name }, query: { ...query } })).sandbox;

const named = async (world: SandboxesWorld, query: Record<string, string>) =>
  (await world.call(operations.listSandboxes, { query })).data.map(({ id }) => id);

async function createFailed(world: SandboxesWorld, body: object): Promise<SandboxId> {
  world.driver.launchErrors.push(new LaunchError('failed', 'x'));
  const { id } = await world.create(body);
  await world.waitFor(id, 'ready');
  return id;
}

describe('the name of a sandbox', () => {
  it('the name of a sandbox is in its record, its events and lists, and finds it', async () => {
    await using world = await openSandboxes();
    const created = await world.create({ name: 'web' });
    const other = await world.create();
    assert.equal(created.name, 'web');
    assert.ok(!('name' in other));
    await world.waitFor(created.id, 'ready');
    assert.deepEqual(await getNamed(world, 'web'), await world.get(created.id));
    assert.deepEqual(await named(world, { name: 'web' }), [created.id]);
    assert.deepEqual(await named(world, { name: 'we' }), []);
    const events = await world.db.selectFrom('events').select('data').where('type', '=', 'sandbox.created').execute();
    assert.ok(events.some(({ data }) => JSON.parse(data).sandbox.name === 'web'));
  });

  it('the name of a sandbox is refused to another of the project, also to 99 of 100 at once', async () => {
    await using world = await openSandboxes();
    const results = await Promise.allSettled(Array.from({ length: 100 }, () => world.create({ name: 'web' })));
    const made = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.id] : []));
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as AppError] : []));
    assert.deepEqual([made.length, refused.length], [1, 99]);
    for (const { code, details } of refused) assert.deepEqual([code, details], ['conflict', { sandboxId: made[0] }]);
    assert.deepEqual(await named(world, {}), made);
  });

  it('the name of a sandbox is free in other projects and organizations', async () => {
    await using world = await openSandboxes();
    const mine = await world.create({ name: 'web' });
    const other = await world.create({ name: 'web', projectId: OTHER_PROJECT });
    const foreign = { credential: credentialOf('org_2' as OrgId) };
    await world.create({ name: 'web' }, foreign);
    assert.equal((await getNamed(world, 'web')).id, mine.id);
    assert.equal((await getNamed(world, 'web', { projectId: OTHER_PROJECT })).id, other.id);
    const bound = { credential: credentialOf(undefined, [OTHER_PROJECT]) };
    await assert.rejects(getNamed(world, 'web', {}, bound), { code: 'forbidden', message: /query\.projectId/ });
    await assert.rejects(getNamed(world, 'web', { projectId: DEFAULT_PROJECT }, bound), { code: 'forbidden' });
    await assert.rejects(getNamed(world, 'web', { projectId: DEFAULT_PROJECT }, foreign), { code: 'not_found' });
    await world.kill(mine.id);
    for (const call of [{}, foreign]) await assert.rejects(getNamed(world, 'none', {}, call), { code: 'not_found' });
    await assert.rejects(getNamed(world, 'web'), { code: 'not_found' });
  });

  for (const [how, end] of [
    ['destroyed', async (world: SandboxesWorld) => void (await world.kill(await world.createReady({ name: 'web' })))],
    ['failed', async (world: SandboxesWorld) => void (await createFailed(world, { name: 'web' }))],
  ] as const) {
    it(`the name of a sandbox is free once it is ${how}, and stays in its record`, async () => {
      await using world = await openSandboxes();
      await end(world);
      const next = await world.create({ name: 'web' });
      assert.deepEqual(await named(world, { name: 'web' }), [next.id]);
      assert.equal((await named(world, { name: 'web', include: 'historical' })).length, 2);
      await assert.rejects(world.create({ name: 'web' }), { code: 'conflict', details: { sandboxId: next.id } });
    });
  }

  it('the name of a sandbox that has failed may be taken by another while it is destroyed', async () => {
    await using world = await openSandboxes();
    const failed = await createFailed(world, { name: 'web' });
    const next = await world.create({ name: 'web' });
    assert.equal((await world.kill(failed)).status, 'destroyed');
    assert.equal((await getNamed(world, 'web')).id, next.id);
  });

  it('the name of a sandbox is refused before a quota, and found whatever the quota', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    const results = await Promise.all(Array.from({ length: 20 }, () => put(world, 'web')));
    assert.equal(results.filter(({ created }) => created).length, 1);
    const sandboxId = results[0]?.sandbox.id;
    await assert.rejects(world.create({ name: 'web' }), { code: 'conflict', details: { sandboxId } });
    await assert.rejects(put(world, 'other'), { code: 'quota_exceeded' });
  });
});

describe('a sandbox that is asked for by its name', () => {
  it('a sandbox that is asked for by its name is created by exactly one of 100 requests at once', async () => {
    await using world = await openSandboxes();
    const answers = await Promise.all(Array.from({ length: 100 }, () => put(world, 'web')));
    assert.equal(answers.filter(({ created }) => created).length, 1);
    assert.equal(new Set(answers.map(({ sandbox }) => sandbox.id)).size, 1);
    assert.equal(world.driver.launches.length, 1);
  });

  it('a sandbox that is asked for by its name is created by exactly one of 100 requests at once on three servers', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    await using opened = await TestServers.open(3);
    const { servers } = opened;
    const at = (index: number) => servers[index % servers.length] as SandboxesWorld;
    for (const limits of [{}, { liveSandboxes: 1 }]) {
      await at(0).limits.setOrganization(ORG, limits);
      const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => put(at(index), 'web')));
      assert.equal(answers.filter(({ created }) => created).length, 1);
      const [id, ...others] = new Set(answers.map(({ sandbox }) => sandbox.id));
      assert.deepEqual(others, []);
      await at(1).kill(id as SandboxId);
    }
  });

  it('a sandbox that is asked for by its name is another one after its end', async () => {
    await using world = await openSandboxes();
    const first = await put(world, 'web');
    await world.waitFor(first.sandbox.id, 'ready');
    assert.deepEqual(
      [(await put(world, 'web')).created, (await put(world, 'web')).sandbox.id],
      [false, first.sandbox.id],
    );
    await world.kill(first.sandbox.id);
    const next = await put(world, 'web');
    assert.equal(next.created, true);
    assert.notEqual(next.sandbox.id, first.sandbox.id);
  });

  it('a sandbox that is asked for by its name while another is destroyed is created when that has ended', async () => {
    await using world = await openSandboxes();
    const first = await put(world, 'web');
    await world.waitFor(first.sandbox.id, 'ready');
    const stop = world.driver.stop.bind(world.driver);
    const { promise: mayStop, resolve: letStop } = Promise.withResolvers<void>();
    world.driver.stop = async (...stopped) => {
      await mayStop;
      return stop(...stopped);
    };
    const killed = world.kill(first.sandbox.id);
    await world.until(async () => (await world.get(first.sandbox.id)).status === 'expiring');
    await assert.rejects(world.create({ name: 'web' }), { code: 'conflict' });
    const asked = put(world, 'web');
    letStop();
    assert.equal((await asked).created, true);
    assert.equal((await killed).status, 'destroyed');
  });

  it('a sandbox that is asked for by its name is not woken', async () => {
    await using world = await openPauses();
    const { sandbox } = await put(world, 'web');
    await world.waitFor(sandbox.id, 'ready');
    const { paused } = await pause(world, sandbox.id);
    assert.deepEqual((await put(world, 'web')).sandbox.paused, paused);
    assert.deepEqual((await getNamed(world, 'web')).paused, paused);
  });

  it('a sandbox that is asked for by its name was created by the request whose first attempt created it', async () => {
    await using world = await openSandboxes();
    const call = { idempotency: { recordId: 'idem_1' } };
    const first = await put(world, 'web', {}, call);
    await world.crash();
    assert.deepEqual(
      [await put(world, 'web', {}, call), await put(world, 'web')].map(({ sandbox, created }) => [sandbox.id, created]),
      [
        [first.sandbox.id, true],
        [first.sandbox.id, false],
      ],
    );
  });
});

describe('a request for a named sandbox', () => {
  const secrets = { A: 'sec_a' as SecretId, B: 'sec_b' as SecretId };
  const created = {
    template: 'node',
    resources: { cpu: 0.5, memoryMb: 256 },
    networkPolicy: { mode: 'allowlist', hosts: ['b.example', 'a.example'] },
    ttlMs: 60_000,
    metadata: { team: 'a' },
    env: { LEVEL: '1' },
    pause: { wake: 'explicit' },
  };

  async function openNamed() {
    const world = await openSandboxes();
    Object.assign(world.driver.isolation, { networkModes: NETWORK_MODES });
    for (const id of Object.values(secrets)) await addSecret(world, id);
    const { sandbox } = await put(world, 'web', { ...created, secrets });
    await world.waitFor(sandbox.id, 'ready');
    return { world, sandbox };
  }

  async function addSecret({ db }: SandboxesWorld, id: SecretId): Promise<void> {
    const row = { id, org_id: ORG, project_id: DEFAULT_PROJECT, name: id, hosts: '["api.test"]', value: 'x' };
    await db
      .insertInto('secrets')
      .values({ ...row, created_at: 1, updated_at: 1 })
      .execute();
  }

  it('a request for a named sandbox that says nothing of it is for one that is paused at its expiry, where memory can be kept', async () => {
    await using world = await openSandboxes();
    const onExpiryOf = async (name: string, body: object) => (await put(world, name, body)).sandbox.pause.onExpiry;
    assert.equal(await onExpiryOf('one', {}), true);
    assert.equal(await onExpiryOf('two', { pause: { wake: 'traffic' } }), true);
    assert.equal(await onExpiryOf('three', { pause: { onExpiry: false } }), false);
    assert.equal((await world.create({ name: 'four' })).pause.onExpiry, false);
    world.driver.freezing = undefined;
    assert.equal(await onExpiryOf('five', {}), false);
  });

  it('a request for a named sandbox that asks for what it is gets it', async () => {
    const { world, sandbox } = await openNamed();
    await using _ = world;
    const same: object[] = [
      {},
      { ...created, secrets },
      { template: sandbox.templateId },
      { templateVersionId: sandbox.templateVersionId },
      { resources: {} },
      { resources: { pids: sandbox.resources.pids } },
      { networkPolicy: { mode: 'allowlist', hosts: ['a.example', 'b.example', 'a.example'] } },
      { secrets: { B: secrets.B, A: secrets.A } },
      { pause: {} },
      { pause: { onExpiry: sandbox.pause.onExpiry, wake: 'explicit' } },
      // These belong to the creation.
      { ttlMs: 1, idleTimeoutMs: 1000, metadata: { team: 'b' }, env: { LEVEL: '2' } },
    ];
    for (const body of same) {
      assert.deepEqual(await put(world, 'web', body), { sandbox: await world.get(sandbox.id), created: false });
    }
  });

  it('a request for a named sandbox that asks for another is refused with exactly the fields that differ', async () => {
    const { world, sandbox } = await openNamed();
    await using _ = world;
    const wrong: [object, string[]][] = [
      [{ template: 'python-node' }, ['template']],
      [{ template: 'none' }, ['template']],
      [{ templateVersionId: 'tplv_pythonnode1' }, ['templateVersionId']],
      [{ resources: { cpu: 0.25 } }, ['resources']],
      [{ resources: { cpu: 0.5, memoryMb: 128 } }, ['resources']],
      [{ networkPolicy: { mode: 'deny-all' } }, ['networkPolicy']],
      [{ networkPolicy: { mode: 'unrestricted' } }, ['networkPolicy']],
      [{ networkPolicy: { mode: 'denylist', hosts: ['a.example', 'b.example'] } }, ['networkPolicy']],
      [{ networkPolicy: { mode: 'allowlist', hosts: ['a.example'] } }, ['networkPolicy']],
      [{ secrets: {} }, ['secrets']],
      [{ pause: { wake: 'requests' } }, ['pause']],
      [{ pause: { wake: 'explicit', retainMs: 60_000 } }, ['pause']],
      [{ pause: { afterIdleMs: 60_000 } }, ['pause']],
      [{ secrets: { A: secrets.A } }, ['secrets']],
      [{ secrets: { A: secrets.B, B: secrets.A } }, ['secrets']],
      [
        { ...created, secrets, template: 'python-node', networkPolicy: { mode: 'deny-all' } },
        ['template', 'networkPolicy'],
      ],
    ];
    for (const [body, differs] of wrong) {
      const refusal = { code: 'conflict', details: { sandboxId: sandbox.id, differs } };
      await assert.rejects(put(world, 'web', body), refusal, JSON.stringify(body));
    }
  });

  it('a request for a named sandbox that no creation takes is refused, also if there is the sandbox', async () => {
    const { world } = await openNamed();
    await using _ = world;
    for (const body of [{ resources: { cpu: 999 } }, { networkPolicy: { mode: 'deny-all', hosts: ['a.example'] } }]) {
      await assert.rejects(put(world, 'web', body), { code: 'invalid_request' });
    }
    await assert.rejects(put(world, 'web', { ttlMs: 3_600_001 }), { code: 'sandbox_ttl_exceeded' });
    await assert.rejects(put(world, 'web', { projectId: 'prj_foreign' }), { code: 'not_found' });
  });
});
