/** Pauses, resumes and connections by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { assertEndsIn, E2bControl } from '../../../service/server/testing/e2b-control.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const MINUTE_MS = 60_000;

let tenants: Tenants;
let e2b: E2bControl;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  e2b = new E2bControl(tenants);
});
after(() => tenants?.close());

describe('a pause of E2B', () => {
  it('a pause of E2B is answered with 204, and a later one with 409', async () => {
    const id = await e2b.create();
    assert.equal(await e2b.status(id, 'pause', {}), 204);
    assert.equal(await e2b.state(id), 'paused');
    assert.equal(await e2b.status(id, 'pause', { memory: true }), 409);
    assert.equal(await e2b.status(id, 'connect', {}), 201);
    assert.equal(await e2b.status(id, 'pause'), 204);
  });

  it('a pause of E2B that is asked for five times at once succeeds for each', async () => {
    const id = await e2b.create();
    const all = await Promise.all(Array.from({ length: 5 }, () => e2b.status(id, 'pause', {})));
    assert.deepEqual(all, [204, 204, 204, 204, 204]);
  });

  it('a pause of E2B ends the code run in progress', async () => {
    const id = await e2b.create();
    const run = tenants.call(tenants.keys.whole, 'POST', `/v1/sandboxes/${id}/code/runs`, {
      body: { code: 'hang', language: 'python' },
      idempotencyKey: id,
    });
    await eventually(async () => (await e2b.ofV1(id)).status === 'running');
    assert.equal(await e2b.status(id, 'pause'), 204);
    assert.equal((await run).body.run.error.name, 'CanceledError');
  });

  it('a pause of E2B finds neither a sandbox that has ended, nor one that never was or is another organization’s', async () => {
    const [ended, own] = await Promise.all([e2b.create(), e2b.create()]);
    await e2b.send('DELETE', `/sandboxes/${ended}`);
    for (const verb of ['pause', 'resume', 'connect']) {
      assert.equal(await e2b.status(ended, verb, {}), 404);
      assert.equal(await e2b.status('itisntthere0000', verb, {}), 404);
      assert.equal((await e2b.post(own, verb, {}, tenants.keys.foreign)).status, 404);
    }
    assert.equal(await e2b.state(own), 'running');
  });

  it('a pause of E2B that is not possible is no 409, which clients take for a pause', async () => {
    const id = await e2b.create();
    const { freezing } = tenants.driver;
    tenants.driver.freezing = undefined;
    try {
      const { status, body } = await e2b.post(id, 'pause');
      assert.equal(status, 400, JSON.stringify(body));
    } finally {
      tenants.driver.freezing = freezing;
    }
  });

  it('a pause of E2B needs the right to pause, and so does a connection that wakes', async () => {
    const { org, key } = await tenants.createOrganization();
    const lesser = await tenants.operator('/keys', { org, scopes: ['sandbox:read', 'sandbox:extend'] });
    const id = await e2b.create({}, key);
    assert.equal((await e2b.post(id, 'pause', {}, lesser.key.secret)).status, 403);
    assert.equal((await e2b.post(id, 'connect', {}, lesser.key.secret)).status, 200);
    assert.equal((await e2b.post(id, 'pause', {}, key)).status, 204);
    for (const verb of ['connect', 'resume'])
      assert.equal((await e2b.post(id, verb, {}, lesser.key.secret)).status, 403);
    const pausing = await tenants.operator('/keys', { org, scopes: ['sandbox:read', 'sandbox:pause'] });
    assert.equal((await e2b.post(id, 'connect', {}, pausing.key.secret)).status, 201);
  });

  it('a pause of E2B can be ended by a kill, which wakes nothing', async () => {
    const id = await e2b.createPaused();
    assert.equal((await e2b.send('DELETE', `/sandboxes/${id}`)).status, 204);
    assert.equal((await e2b.send('GET', `/sandboxes/${id}`)).status, 404);
    assert.equal((await e2b.ofV1(id)).resumed, undefined);
  });

  it('a pause of E2B keeps the memory while there is room, or the files alone', async () => {
    const kept = await e2b.createPaused();
    const lost = await e2b.create();
    assert.equal(await e2b.status(lost, 'pause', { memory: false }), 204);
    const placeOf = async (id: string) => (await e2b.ofV1(id)).paused?.place;
    assert.deepEqual([await placeOf(kept), await placeOf(lost)], ['memory', 'disk']);
    for (const [id, flag] of [
      [kept, { memory: false }],
      [lost, {}],
    ] as const) {
      assert.equal(await e2b.status(id, 'connect', flag), 201);
      assert.equal((await e2b.ofV1(id)).resumed?.memory, 'lost');
    }
  });

  it('a pause of E2B at the end of a lifetime obeys the flag of the creation', async () => {
    const id = await e2b.create({ autoPause: true, autoPauseMemory: false });
    assert.equal((await e2b.ofV1(id)).pause.memory, 'drop');
    assert.equal(await e2b.status(id, 'timeout', { timeout: 0 }), 204);
    assert.equal((await e2b.ofV1(id)).paused?.place, 'disk');
  });

  it('a pause of E2B leaves its logs unread: to read them would wake it', async () => {
    const id = await e2b.createPaused({ autoResume: { enabled: true } });
    assert.equal((await e2b.send('GET', `/v2/sandboxes/${id}/logs`)).status, 409);
    assert.equal((await e2b.send('GET', `/sandboxes/${id}/metrics`)).status, 200);
    assert.equal(await e2b.state(id), 'paused');
  });
});

describe('a connection of E2B', () => {
  for (const version of ['', '/v2']) {
    it(`a connection of E2B${version} wakes a paused sandbox with 201, and answers 200 for one that runs`, async () => {
      const id = await e2b.createPaused({ timeout: 3600 });
      const path = `${version}/sandboxes/${id}/connect`;
      const woken = await e2b.send('POST', path, { timeout: 900 });
      assert.deepEqual([woken.status, woken.body.sandboxID, await e2b.state(id)], [201, id, 'running']);
      assertEndsIn(await e2b.show(id), 15 * MINUTE_MS);
      const again = await e2b.send('POST', path, { timeout: 60 });
      assert.deepEqual([again.status, again.body.sandboxID], [200, id]);
      assertEndsIn(await e2b.show(id), 15 * MINUTE_MS);
    });
  }

  /** Lifetimes after a wake, by the body of the connection. A creation without a timeout has five minutes. */
  const WOKEN: readonly [body: object | undefined, ms: number][] = [
    [undefined, 5 * MINUTE_MS],
    [{ timeout: 0 }, 10 * MINUTE_MS],
    [{ timeout: 86_400 }, 1440 * MINUTE_MS],
  ];
  for (const [body, ms] of WOKEN) {
    it(`a connection of E2B with ${JSON.stringify(body) ?? 'no body'} begins the lifetime of a paused sandbox`, async () => {
      const id = await e2b.createPaused({ timeout: 600 });
      assert.equal(await e2b.status(id, 'connect', body), 201);
      assertEndsIn(await e2b.show(id), ms);
    });
  }

  it('a connection of E2B is refused with a timeout of more than a day, and the sandbox stays paused', async () => {
    const id = await e2b.createPaused();
    assert.equal(await e2b.status(id, 'connect', { timeout: 86_401 }), 400);
    assert.equal(await e2b.status('itisntthere0000', 'connect', { timeout: 86_401 }), 400);
    assert.equal(await e2b.state(id), 'paused');
  });

  it('a connection of E2B that is opened five times at once finds the sandbox running each time', async () => {
    const id = await e2b.createPaused();
    const one = async () => [await e2b.status(id, 'connect', { timeout: 300 }), await e2b.state(id)] as const;
    for (const [status, found] of await Promise.all(Array.from({ length: 5 }, one))) {
      assert.ok(status === 200 || status === 201, `${status}`);
      assert.equal(found, 'running');
    }
  });

  it('a connection of E2B waits for the pause that is under way at the end of the lifetime', async () => {
    const id = await e2b.create({ autoPause: true, timeout: 600 });
    await e2b.post(id, 'timeout', { timeout: 0 });
    assert.equal(await e2b.status(id, 'connect', {}), 201);
    assert.equal(await e2b.state(id), 'running');
  });
});

describe('a resume of E2B', () => {
  it('a resume of E2B is answered with 201 for a paused sandbox, and with 409 for one that runs', async () => {
    const id = await e2b.create();
    assert.equal(await e2b.status(id, 'resume'), 409);
    await e2b.post(id, 'pause');
    const { status, body } = await e2b.post(id, 'resume', {});
    assert.deepEqual([status, body.sandboxID, body.templateID], [201, id, 'python-node']);
    assertEndsIn(await e2b.show(id), MINUTE_MS / 4);
    assert.equal(await e2b.status(id, 'resume', {}), 409);
  });

  it('a resume of E2B that is asked for five times at once succeeds for each', async () => {
    const id = await e2b.createPaused();
    const one = async () => [await e2b.status(id, 'resume', { timeout: 600 }), await e2b.state(id)];
    for (const each of await Promise.all(Array.from({ length: 5 }, one))) assert.deepEqual(each, [201, 'running']);
    assertEndsIn(await e2b.show(id), 10 * MINUTE_MS);
  });

  it('a resume of E2B is counted like a creation', async () => {
    const { org, key } = await tenants.createOrganization();
    const id = await e2b.create({}, key);
    await e2b.post(id, 'pause', {}, key);
    await tenants.operator(`/orgs/${org}/quotas`, { liveSandboxes: 0 }, 'PATCH');
    await eventually(async () => (await e2b.post(id, 'resume', {}, key)).status === 429);
    assert.equal((await e2b.send('GET', `/sandboxes/${id}`, undefined, key)).body.state, 'paused');
  });
});
