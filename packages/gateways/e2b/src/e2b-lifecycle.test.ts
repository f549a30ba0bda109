/** Lifetimes and states of sandboxes by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { assertEndsIn, E2bControl, type ShownSandbox } from '../../../service/server/testing/e2b-control.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const MINUTE_MS = 60_000;

let tenants: Tenants;
let e2b: E2bControl;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  e2b = new E2bControl(tenants);
});
after(() => tenants?.close());

describe('the lifecycle of a sandbox of E2B', () => {
  /** Creations, with the lifecycle that clients are shown, the policy of /v1, and the lifetime of its wakes. */
  const CREATIONS: readonly [body: object, lifecycle: ShownSandbox['lifecycle'], wake: string, wakeTtlMs: number][] = [
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
      const id = await e2b.create(body);
      assert.deepEqual((await e2b.show(id)).lifecycle, lifecycle);
      const { pause } = await e2b.ofV1(id);
      const isPaused = lifecycle.onTimeout === 'pause';
      assert.deepEqual([pause.onExpiry, pause.wake, pause.wakeTtlMs], [isPaused, wake, wakeTtlMs]);
    });
  }

  const REFUSED: Readonly<Record<string, object>> = {
    'autoPauseMemory: false needs autoPause': { autoPauseMemory: false },
    'autoResume would wake': { autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } },
  };
  for (const [message, body] of Object.entries(REFUSED)) {
    it(`the lifecycle of a sandbox of E2B is refused with ${JSON.stringify(body)}`, async () => {
      const { status, body: answer } = await e2b.send('POST', '/v2/sandboxes', { templateID: 'base', ...body });
      assert.equal(status, 400);
      assert.match(answer.message, new RegExp(message));
    });
  }

  it('the lifecycle of a sandbox of E2B pauses it at a shorter end that the client set, and a wake begins a lifetime', async () => {
    const id = await e2b.create({ autoPause: true, timeout: 600 });
    assert.equal(await e2b.status(id, 'timeout', { timeout: 1 }), 204);
    await eventually(async () => (await e2b.state(id)) === 'paused', { because: 'the lifetime is over' });
    assert.equal((await e2b.ofV1(id)).paused?.by, 'expiry');
    assert.equal(await e2b.status(id, 'connect', { timeout: 900 }), 201);
    assertEndsIn(await e2b.show(id), 15 * MINUTE_MS);
  });

  it('the lifecycle of a sandbox of E2B pauses it at once with a timeout of 0, and only with autoPause', async () => {
    const [pausing, ending] = await Promise.all([e2b.create({ autoPause: true }), e2b.create()]);
    for (const id of [pausing, ending]) assert.equal(await e2b.status(id, 'timeout', { timeout: 0 }), 204);
    assert.equal(await e2b.state(pausing), 'paused');
    assert.equal((await e2b.send('GET', `/sandboxes/${ending}`)).status, 404);
    assert.equal(await e2b.status(ending, 'resume', {}), 404);
  });

  it('the lifecycle of a sandbox of E2B has no timeout while it is paused', async () => {
    const id = await e2b.createPaused();
    for (const timeout of [0, 60]) assert.equal(await e2b.status(id, 'timeout', { timeout }), 409);
    assert.equal(await e2b.status(id, 'refreshes', { duration: 86_400 }), 409);
    assert.equal(await e2b.state(id), 'paused');
  });

  it('the lifecycle of a sandbox of E2B shows when its session began, and when it was paused', async () => {
    const id = await e2b.createPaused();
    const { createdAt, paused: pause } = await e2b.ofV1(id);
    const asleep = await e2b.show(id);
    assert.deepEqual([asleep.startedAt, asleep.endAt, asleep.state], [createdAt, pause?.at, 'paused']);
    await e2b.post(id, 'connect', {});
    const awake = await e2b.show(id);
    assert.equal(awake.startedAt, (await e2b.ofV1(id)).sessionStartedAt);
    assert.ok(awake.startedAt > asleep.endAt && awake.endAt > awake.startedAt);
  });
});

describe('a list of E2B by states', () => {
  const ids: string[] = [];
  before(async () => {
    for (const verb of ['', 'pause', 'pause', '']) {
      const id = await e2b.create({ metadata: { suite: 'states' } });
      if (verb !== '') await e2b.post(id, verb);
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
      const { body } = await e2b.send('GET', `${path}metadata=suite%3Dstates`);
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
    await e2b.post(id, 'connect', {});
    const { startedAt } = await e2b.show(id);
    const { body } = await e2b.send('GET', `/v2/sandboxes?metadata=suite%3Dstates&startedAfter=${startedAt}`);
    assert.deepEqual(
      body.map(({ sandboxID }: { sandboxID: string }) => sandboxID),
      [id],
    );
    await e2b.post(id, 'pause');
  });
});
