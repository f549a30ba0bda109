/** Pauses by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Sandbox } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const MINUTE_MS = 60_000;
/** How far a time may lie from the one that a test computes. */
const SLACK_MS = 30_000;

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
});
after(() => tenants?.close());

async function send(method: string, path: string, body?: unknown, key = tenants.keys.whole) {
  const headers = { 'x-api-key': key, ...(body !== undefined && { 'content-type': 'application/json' }) };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(`${tenants.server.url}/e2b${path}`, { method, headers, ...sent });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) };
}
const post = (id: string, verb: string, body?: unknown, key?: string) =>
  send('POST', `/sandboxes/${id}/${verb}`, body, key);
const statusOf = async (id: string, verb: string, body?: unknown) => (await post(id, verb, body)).status;
const shown = async (id: string) => (await send('GET', `/sandboxes/${id}`)).body;
const ofV1 = async (id: string): Promise<Sandbox> =>
  (await tenants.call(tenants.keys.whole, 'GET', `/v1/sandboxes/${id}`)).body.sandbox;

async function created(body: object = {}, key?: string): Promise<string> {
  const { status, body: made } = await send('POST', '/v2/sandboxes', { templateID: 'base', ...body }, key);
  assert.equal(status, 201, JSON.stringify(made));
  return made.sandboxID;
}

async function paused(body: object = {}): Promise<string> {
  const id = await created(body);
  assert.equal(await statusOf(id, 'pause'), 204);
  return id;
}

const state = async (id: string): Promise<string> => (await shown(id)).state;

async function endsIn(id: string, ms: number): Promise<void> {
  const left = Date.parse((await shown(id)).endAt) - Date.now();
  assert.ok(Math.abs(left - ms) < SLACK_MS, `${left} ms are left, not ${ms}`);
}

describe('a pause of E2B', () => {
  it('a pause of E2B is answered with 204, and a later one with 409', async () => {
    const id = await created();
    assert.equal(await statusOf(id, 'pause', {}), 204);
    assert.equal(await state(id), 'paused');
    assert.equal(await statusOf(id, 'pause', { memory: true }), 409);
    assert.equal(await statusOf(id, 'connect', {}), 201);
    assert.equal(await statusOf(id, 'pause'), 204);
  });

  it('a pause of E2B that is asked for five times at once succeeds for each', async () => {
    const id = await created();
    const all = await Promise.all(Array.from({ length: 5 }, () => statusOf(id, 'pause', {})));
    assert.deepEqual(all, [204, 204, 204, 204, 204]);
  });

  it('a pause of E2B ends the code run in progress', async () => {
    const id = await created();
    const run = tenants.call(tenants.keys.whole, 'POST', `/v1/sandboxes/${id}/code/runs`, {
      body: { code: 'hang', language: 'python' },
      idempotencyKey: id,
    });
    await eventually(async () => (await ofV1(id)).status === 'running');
    assert.equal(await statusOf(id, 'pause'), 204);
    assert.equal((await run).body.run.error.name, 'CanceledError');
  });

  it('a pause of E2B finds neither a sandbox that has ended, nor one that never was or is another organization’s', async () => {
    const [ended, own] = await Promise.all([created(), created()]);
    await send('DELETE', `/sandboxes/${ended}`);
    for (const verb of ['pause', 'resume', 'connect']) {
      assert.equal(await statusOf(ended, verb, {}), 404);
      assert.equal(await statusOf('itisntthere0000', verb, {}), 404);
      assert.equal((await post(own, verb, {}, tenants.keys.foreign)).status, 404);
    }
    assert.equal(await state(own), 'running');
  });

  it('a pause of E2B that is not possible is no 409, which clients take for a pause', async () => {
    const id = await created();
    const { freezing } = tenants.driver;
    tenants.driver.freezing = undefined;
    try {
      const { status, body } = await post(id, 'pause');
      assert.equal(status, 400, JSON.stringify(body));
    } finally {
      tenants.driver.freezing = freezing;
    }
  });

  it('a pause of E2B needs the right to pause, and so does a connection that wakes', async () => {
    const { org, key } = await tenants.createOrganization();
    const lesser = await tenants.operator('/keys', { org, scopes: ['sandbox:read', 'sandbox:extend'] });
    const id = await created({}, key);
    assert.equal((await post(id, 'pause', {}, lesser.key.secret)).status, 403);
    assert.equal((await post(id, 'connect', {}, lesser.key.secret)).status, 200);
    assert.equal((await post(id, 'pause', {}, key)).status, 204);
    for (const verb of ['connect', 'resume']) assert.equal((await post(id, verb, {}, lesser.key.secret)).status, 403);
    const pausing = await tenants.operator('/keys', { org, scopes: ['sandbox:read', 'sandbox:pause'] });
    assert.equal((await post(id, 'connect', {}, pausing.key.secret)).status, 201);
  });

  it('a pause of E2B can be ended by a kill, which wakes nothing', async () => {
    const id = await paused();
    assert.equal((await send('DELETE', `/sandboxes/${id}`)).status, 204);
    assert.equal((await send('GET', `/sandboxes/${id}`)).status, 404);
    assert.equal((await ofV1(id)).resumed, undefined);
  });

  it('a pause of E2B without the memory is refused, and so is a wake', async () => {
    const id = await created();
    for (const verb of ['pause', 'resume', 'connect']) {
      const { status, body } = await post(id, verb, { memory: false });
      assert.deepEqual([status, /memory.* yet/.test(body.message)], [400, true], verb);
    }
    assert.equal(await state(id), 'running');
  });

  it('a pause of E2B leaves its logs unread: to read them would wake it', async () => {
    const id = await paused({ autoResume: { enabled: true } });
    assert.equal((await send('GET', `/v2/sandboxes/${id}/logs`)).status, 409);
    assert.equal((await send('GET', `/sandboxes/${id}/metrics`)).status, 200);
    assert.equal(await state(id), 'paused');
  });
});

describe('a connection of E2B', () => {
  for (const version of ['', '/v2']) {
    it(`a connection of E2B${version} wakes a paused sandbox with 201, and answers 200 for one that runs`, async () => {
      const id = await paused({ timeout: 3600 });
      const path = `${version}/sandboxes/${id}/connect`;
      const woken = await send('POST', path, { timeout: 900 });
      assert.deepEqual([woken.status, woken.body.sandboxID, await state(id)], [201, id, 'running']);
      await endsIn(id, 15 * MINUTE_MS);
      const again = await send('POST', path, { timeout: 60 });
      assert.deepEqual([again.status, again.body.sandboxID], [200, id]);
      await endsIn(id, 15 * MINUTE_MS);
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
      const id = await paused({ timeout: 600 });
      assert.equal(await statusOf(id, 'connect', body), 201);
      await endsIn(id, ms);
    });
  }

  it('a connection of E2B is refused with a timeout of more than a day, and the sandbox stays paused', async () => {
    const id = await paused();
    assert.equal(await statusOf(id, 'connect', { timeout: 86_401 }), 400);
    assert.equal(await statusOf('itisntthere0000', 'connect', { timeout: 86_401 }), 400);
    assert.equal(await state(id), 'paused');
  });

  it('a connection of E2B that is opened five times at once finds the sandbox running each time', async () => {
    const id = await paused();
    const one = async () => [await statusOf(id, 'connect', { timeout: 300 }), await state(id)] as const;
    for (const [status, found] of await Promise.all(Array.from({ length: 5 }, one))) {
      assert.ok(status === 200 || status === 201, `${status}`);
      assert.equal(found, 'running');
    }
  });

  it('a connection of E2B waits for the pause that is under way at the end of the lifetime', async () => {
    const id = await created({ autoPause: true, timeout: 600 });
    await post(id, 'timeout', { timeout: 0 });
    assert.equal(await statusOf(id, 'connect', {}), 201);
    assert.equal(await state(id), 'running');
  });
});

describe('a resume of E2B', () => {
  it('a resume of E2B is answered with 201 for a paused sandbox, and with 409 for one that runs', async () => {
    const id = await created();
    assert.equal(await statusOf(id, 'resume'), 409);
    await post(id, 'pause');
    const { status, body } = await post(id, 'resume', {});
    assert.deepEqual([status, body.sandboxID, body.templateID], [201, id, 'python-node']);
    await endsIn(id, MINUTE_MS / 4);
    assert.equal(await statusOf(id, 'resume', {}), 409);
  });

  it('a resume of E2B that is asked for five times at once succeeds for each', async () => {
    const id = await paused();
    const one = async () => [await statusOf(id, 'resume', { timeout: 600 }), await state(id)];
    for (const each of await Promise.all(Array.from({ length: 5 }, one))) assert.deepEqual(each, [201, 'running']);
    await endsIn(id, 10 * MINUTE_MS);
  });

  it('a resume of E2B is counted like a creation', async () => {
    const { org, key } = await tenants.createOrganization();
    const id = await created({}, key);
    await post(id, 'pause', {}, key);
    await tenants.operator(`/orgs/${org}/quotas`, { liveSandboxes: 0 }, 'PATCH');
    await eventually(async () => (await post(id, 'resume', {}, key)).status === 429);
    assert.equal((await send('GET', `/sandboxes/${id}`, undefined, key)).body.state, 'paused');
  });
});

interface Lifecycle {
  readonly onTimeout: 'pause' | 'kill';
  readonly autoResume: boolean;
}

describe('the lifecycle of a sandbox of E2B', () => {
  /** Creations, with the lifecycle that clients are shown, the policy of /v1, and the lifetime of its wakes. */
  const CREATIONS: readonly [body: object, lifecycle: Lifecycle, wake: string, wakeTtlMs: number][] = [
    [{}, { onTimeout: 'kill', autoResume: false }, 'explicit', 5 * MINUTE_MS],
    [{ autoPause: false }, { onTimeout: 'kill', autoResume: false }, 'explicit', 5 * MINUTE_MS],
    [{ autoPause: true, timeout: 60 }, { onTimeout: 'pause', autoResume: false }, 'explicit', 5 * MINUTE_MS],
    [
      { autoPause: true, autoResume: { enabled: false } },
      { onTimeout: 'pause', autoResume: false },
      'explicit',
      5 * MINUTE_MS,
    ],
    [
      { autoPause: true, autoResume: { enabled: true }, timeout: 420 },
      { onTimeout: 'pause', autoResume: true },
      'traffic',
      7 * MINUTE_MS,
    ],
  ];
  for (const [body, lifecycle, wake, wakeTtlMs] of CREATIONS) {
    it(`the lifecycle of a sandbox of E2B is that of its creation with ${JSON.stringify(body)}`, async () => {
      const id = await created(body);
      assert.deepEqual((await shown(id)).lifecycle, lifecycle);
      const { pause } = await ofV1(id);
      const isPaused = lifecycle.onTimeout === 'pause';
      assert.deepEqual([pause.onExpiry, pause.wake, pause.wakeTtlMs], [isPaused, wake, wakeTtlMs]);
    });
  }

  const REFUSED: Readonly<Record<string, object>> = {
    'autoPauseMemory: false needs autoPause': { autoPauseMemory: false },
    'autoResume would wake': { autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } },
    'does not pause without the memory of a sandbox yet': { autoPause: true, autoPauseMemory: false },
  };
  for (const [message, body] of Object.entries(REFUSED)) {
    it(`the lifecycle of a sandbox of E2B is refused with ${JSON.stringify(body)}`, async () => {
      const { status, body: answer } = await send('POST', '/v2/sandboxes', { templateID: 'base', ...body });
      assert.equal(status, 400);
      assert.match(answer.message, new RegExp(message));
    });
  }

  it('the lifecycle of a sandbox of E2B pauses it at a shorter end that the client set, and a wake begins a lifetime', async () => {
    const id = await created({ autoPause: true, timeout: 600 });
    assert.equal(await statusOf(id, 'timeout', { timeout: 1 }), 204);
    await eventually(async () => (await state(id)) === 'paused', { because: 'the lifetime is over' });
    assert.equal((await ofV1(id)).paused?.by, 'expiry');
    assert.equal(await statusOf(id, 'connect', { timeout: 900 }), 201);
    await endsIn(id, 15 * MINUTE_MS);
  });

  it('the lifecycle of a sandbox of E2B pauses it at once with a timeout of 0, and only with autoPause', async () => {
    const [pausing, ending] = await Promise.all([created({ autoPause: true }), created()]);
    for (const id of [pausing, ending]) assert.equal(await statusOf(id, 'timeout', { timeout: 0 }), 204);
    assert.equal(await state(pausing), 'paused');
    assert.equal((await send('GET', `/sandboxes/${ending}`)).status, 404);
    assert.equal(await statusOf(ending, 'resume', {}), 404);
  });

  it('the lifecycle of a sandbox of E2B has no timeout while it is paused', async () => {
    const id = await paused();
    for (const timeout of [0, 60]) assert.equal(await statusOf(id, 'timeout', { timeout }), 409);
    assert.equal(await statusOf(id, 'refreshes', { duration: 86_400 }), 409);
    assert.equal(await state(id), 'paused');
  });

  it('the lifecycle of a sandbox of E2B shows when its session began, and when it was paused', async () => {
    const id = await paused();
    const { createdAt, paused: pause } = await ofV1(id);
    const asleep = await shown(id);
    assert.deepEqual([asleep.startedAt, asleep.endAt, asleep.state], [createdAt, pause?.at, 'paused']);
    await post(id, 'connect', {});
    const awake = await shown(id);
    assert.equal(awake.startedAt, (await ofV1(id)).sessionStartedAt);
    assert.ok(awake.startedAt > asleep.endAt && awake.endAt > awake.startedAt);
  });
});

describe('a list of E2B by states', () => {
  const ids: string[] = [];
  before(async () => {
    for (const verb of ['', 'pause', 'pause', '']) {
      const id = await created({ metadata: { suite: 'states' } });
      if (verb !== '') await post(id, verb);
      ids.push(id);
    }
  });

  const LISTS: Readonly<Record<string, readonly number[]>> = {
    '/v2/sandboxes?': [3, 2, 1, 0],
    '/v2/sandboxes?state=running&': [3, 0],
    '/v2/sandboxes?state=paused&': [2, 1],
    '/v2/sandboxes?state=paused,running&order=asc&': [0, 1, 2, 3],
    '/sandboxes?': [3, 0],
  };
  for (const [path, found] of Object.entries(LISTS)) {
    it(`a list of E2B by states is that of ${path}`, async () => {
      const { body } = await send('GET', `${path}metadata=suite%3Dstates`);
      const listed = body.map((each: { sandboxID: string; state: string }) => [
        ids.indexOf(each.sandboxID),
        each.state,
      ]);
      assert.deepEqual(
        listed,
        found.map((index) => [index, index === 1 || index === 2 ? 'paused' : 'running']),
      );
    });
  }

  it('a list of E2B by states has a woken sandbox among those that started after its wake', async () => {
    const id = ids[1] as string;
    await post(id, 'connect', {});
    const { startedAt } = await shown(id);
    const { body } = await send('GET', `/v2/sandboxes?metadata=suite%3Dstates&startedAfter=${startedAt}`);
    assert.deepEqual(
      body.map(({ sandboxID }: { sandboxID: string }) => sandboxID),
      [id],
    );
    await post(id, 'pause');
  });
});
