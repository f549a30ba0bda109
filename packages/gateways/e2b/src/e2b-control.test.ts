/** What E2B's clients send to the control plane, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
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

const send = (...sent: Parameters<E2bControl['send']>) => e2b.send(...sent);
const shown = (id: string) => e2b.show(id);
const created = async (body?: object) => shown(await e2b.create(body));

describe('the lifetime of a sandbox of E2B', () => {
  const DEFAULT_MS = 5 * MINUTE_MS;
  /** What extends, by the lifetime before and after. */
  const EXTENDS: readonly [name: string, path: string, body: object | undefined, before: number, after: number][] = [
    ['a connection without a timeout', '/v2/sandboxes/ID/connect', {}, MINUTE_MS, DEFAULT_MS],
    ['an older connection without a timeout', '/sandboxes/ID/connect', {}, MINUTE_MS, DEFAULT_MS],
    ['a connection without a body', '/v2/sandboxes/ID/connect', undefined, MINUTE_MS, DEFAULT_MS],
    ['a connection to one that lives longer', '/v2/sandboxes/ID/connect', {}, 10 * MINUTE_MS, 10 * MINUTE_MS],
    ['a connection with a timeout', '/v2/sandboxes/ID/connect', { timeout: 900 }, MINUTE_MS, 15 * MINUTE_MS],
    [
      'a connection past the longest session',
      '/v2/sandboxes/ID/connect',
      { timeout: 86_400 },
      MINUTE_MS,
      1440 * MINUTE_MS,
    ],
    ['a refresh without a duration', '/sandboxes/ID/refreshes', {}, MINUTE_MS, MINUTE_MS],
    ['a refresh with a duration', '/sandboxes/ID/refreshes', { duration: 900 }, MINUTE_MS, 15 * MINUTE_MS],
    ['a longer timeout', '/sandboxes/ID/timeout', { timeout: 900 }, MINUTE_MS, 15 * MINUTE_MS],
    ['a shorter timeout', '/sandboxes/ID/timeout', { timeout: 120 }, 10 * MINUTE_MS, 2 * MINUTE_MS],
    ['a timeout past the longest session', '/sandboxes/ID/timeout', { timeout: 86_400 }, MINUTE_MS, 1440 * MINUTE_MS],
  ];
  for (const [name, path, body, before, after] of EXTENDS) {
    it(`the lifetime of a sandbox of E2B after ${name}`, async () => {
      const { sandboxID } = await created({ timeout: before / 1000 });
      const { status, body: answer } = await send('POST', path.replace('ID', sandboxID), body);
      assert.ok(status < 300, JSON.stringify(answer));
      assertEndsIn(await shown(sandboxID), after);
    });
  }

  for (const [name, body] of Object.entries({ none: {}, 'a timeout of 0': { timeout: 0 } })) {
    it(`the lifetime of a sandbox of E2B is five minutes with ${name}`, async () =>
      assertEndsIn(await created(body), DEFAULT_MS));
  }

  it('the lifetime of a sandbox of E2B may be set often: each timeout overwrites the one before', async () => {
    const { sandboxID } = await created();
    for (const timeout of [600, 120, 60, 300, 90]) {
      assert.equal((await send('POST', `/sandboxes/${sandboxID}/timeout`, { timeout })).status, 204);
      assertEndsIn(await shown(sandboxID), timeout * 1000);
    }
  });

  it('the lifetime of a sandbox of E2B ends early for every server, and a later TTL of /v1 ends it later again', async () => {
    const { sandboxID } = await created({ timeout: 600 });
    await send('POST', `/sandboxes/${sandboxID}/timeout`, { timeout: 120 });
    const path = `/v1/sandboxes/${sandboxID}`;
    const v1 = (await tenants.call(tenants.keys.whole, 'GET', path)).body.sandbox;
    assertEndsIn({ ...(await shown(sandboxID)), endAt: v1.expiresAt }, 2 * MINUTE_MS);
    const earlier = { body: { ttlMs: MINUTE_MS }, idempotencyKey: 'earlier' };
    assert.equal((await tenants.call(tenants.keys.whole, 'POST', `${path}/ttl`, earlier)).status, 400);
    const later = { body: { ttlMs: 20 * MINUTE_MS }, idempotencyKey: 'later' };
    assert.equal((await tenants.call(tenants.keys.whole, 'POST', `${path}/ttl`, later)).status, 200);
    assertEndsIn(await shown(sandboxID), 20 * MINUTE_MS);
    await send('POST', `/sandboxes/${sandboxID}/timeout`, { timeout: 1 });
    const ended = await tenants.call(tenants.keys.whole, 'GET', `${path}?waitFor=destroyed&waitMs=20000`);
    assert.deepEqual([ended.body.sandbox.status, ended.body.sandbox.destroyedReason], ['destroyed', 'ttl_expired']);
    assert.equal((await send('POST', `/sandboxes/${sandboxID}/timeout`, { timeout: 60 })).status, 404);
  });

  it('the lifetime of a sandbox of E2B is set with the scope and the organization of the key alone, and each change has its audit event', async () => {
    const { sandboxID } = await created({ timeout: 600 });
    const path = `/sandboxes/${sandboxID}/timeout`;
    assert.equal((await send('POST', path, { timeout: 60 }, tenants.keys.foreign)).status, 404);
    const { key } = await tenants.operator('/keys', { scopes: ['sandbox:read'] });
    assert.equal((await send('POST', path, { timeout: 60 }, key.secret)).status, 403);
    assertEndsIn(await shown(sandboxID), 10 * MINUTE_MS);
    await send('POST', path, { timeout: 60 });
    const { data } = (await tenants.call(tenants.keys.whole, 'GET', '/v1/audit-events?limit=500')).body;
    const mine = data.filter(({ target }: { target: { id: string } }) => target.id === sandboxID);
    const actions = mine.map(({ action, outcome }: Record<string, string>) => `${action} ${outcome}`);
    assert.ok(actions.includes('sandbox.extended allowed'), String(actions));
  });
});

describe('a value of another type is refused, as by E2B:', () => {
  const CASES: readonly [path: string, body: object][] = [
    ['/v2/sandboxes', { metadata: { a: 5 } }],
    ['/v2/sandboxes', { metadata: { a: null } }],
    ['/v2/sandboxes', { metadata: [['a', 'b']] }],
    ['/v2/sandboxes', { envVars: { A: 5 } }],
    ['/v2/sandboxes', { envVars: { A: true } }],
    ['/v2/sandboxes', { timeout: '60' }],
    ['/v2/sandboxes', { timeout: 1.5 }],
    ['/v2/sandboxes', { templateID: 5 }],
    ['/v2/sandboxes', { allow_internet_access: 'false' }],
    ['/v2/sandboxes', { network: { allowOut: 'a.example' } }],
    ['/v2/sandboxes', { network: { denyOut: [5] } }],
    ['/sandboxes/ID/timeout', { timeout: '60' }],
    ['/sandboxes/ID/refreshes', { duration: '60' }],
    ['/v2/sandboxes/ID/connect', { timeout: true }],
    ['/secrets', { name: 5, value: 'x', metadata: { hosts: 'a.example' } }],
    ['/secrets', { name: 'numbered', value: 5, metadata: { hosts: 'a.example' } }],
    ['/v3/templates', { name: 5 }],
  ];
  for (const [path, body] of CASES) {
    it(`${path} ${JSON.stringify(body)}`, async () => {
      const { sandboxID } = await created();
      const whole = path === '/v2/sandboxes' ? { templateID: 'base', ...body } : body;
      const answer = await send('POST', path.replace('ID', sandboxID), whole);
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
    });
  }

  it('absent and null values are not', async () => {
    await created({ metadata: null, envVars: null, network: null, allow_internet_access: null, timeout: 60 });
    await created({ network: { allowOut: null, denyOut: null } });
  });
});

describe('a list of E2B', () => {
  const ids: string[] = [];
  const metadata = { suite: 'list' };
  let second: ShownSandbox;
  before(async () => {
    for (let count = 0; count < 5; count += 1) ids.push((await created({ metadata })).sandboxID);
    second = await shown(ids[1] as string);
    await send('DELETE', `/sandboxes/${ids[4]}`);
  });

  async function list(query: string): Promise<{ ids: number[]; next: string | null; status: number }> {
    const { status, body, headers } = await send('GET', `/v2/sandboxes?metadata=suite%3Dlist&${query}`);
    const found: number[] = status === 200 ? body.map(({ sandboxID }: ShownSandbox) => ids.indexOf(sandboxID)) : [];
    return { ids: found, next: headers.get('x-next-token'), status };
  }

  const after = (ms: number) => new Date(Date.parse(second.startedAt) + ms).toISOString();
  const QUERIES: Readonly<Record<string, readonly [query: () => string, found: readonly number[]]>> = {
    'newest first': [() => '', [3, 2, 1, 0]],
    'in descending order': [() => 'order=desc', [3, 2, 1, 0]],
    'in ascending order': [() => 'order=asc', [0, 1, 2, 3]],
    'from a start time on': [() => `startedAfter=${after(0)}`, [3, 2, 1]],
    'after a start time, ascending': [() => `startedAfter=${after(1)}&order=asc`, [2, 3]],
    'of a template by E2B’s name': [() => 'template=base', [3, 2, 1, 0]],
    'of a template by its slug': [() => 'template=python-node', [3, 2, 1, 0]],
    'of an unknown template': [() => 'template=unknown-template', []],
    'of running and paused ones': [() => 'state=running,paused', [3, 2, 1, 0]],
    'of paused ones': [() => 'state=paused', []],
    'of states one by one': [() => 'state=paused&state=running', [3, 2, 1, 0]],
  };
  for (const [name, [query, found]] of Object.entries(QUERIES)) {
    it(name, async () => assert.deepEqual(await list(query()), { ids: found, next: null, status: 200 }));
  }

  for (const [order, found] of Object.entries({ desc: [3, 2, 1, 0], asc: [0, 1, 2, 3] })) {
    for (const limit of [1, 2, 3, 4]) {
      it(`a list of E2B has pages of ${limit} in order ${order}, the last without a token`, async () => {
        const pages: number[][] = [];
        for (let token: string | null = ''; token !== null; ) {
          const more: string = token === '' ? '' : `&nextToken=${encodeURIComponent(token)}`;
          const page = await list(`order=${order}&limit=${limit}${more}`);
          pages.push(page.ids);
          token = page.next;
        }
        assert.deepEqual(pages.flat(), found);
        assert.equal(pages.length, Math.ceil(4 / limit));
      });
    }
  }

  for (const query of [
    'order=up',
    'startedAfter=soon',
    'limit=0',
    'limit=x',
    'limit=-1',
    'nextToken=x',
    'state=gone',
  ]) {
    it(`a list of E2B refuses ${query}`, async () => assert.equal((await list(query)).status, 400));
  }
});

describe('metrics of E2B', () => {
  it('metrics of E2B are those of the interval', async () => {
    const { sandboxID, startedAt } = await created();
    const start = Math.floor(Date.parse(startedAt) / 1000);
    const count = async (query: string) => {
      const { status, body } = await send('GET', `/sandboxes/${sandboxID}/metrics${query}`);
      return status === 200 ? body.length > 0 : status;
    };
    const hour = 3600;
    const cases: Readonly<Record<string, boolean | number>> = {
      '': true,
      [`?start=${start - hour}`]: true,
      [`?start=${start - hour}&end=${start + hour}`]: true,
      [`?end=${start + hour}`]: true,
      [`?start=${start - 2 * hour}&end=${start - hour}`]: false,
      [`?end=${start - hour}`]: false,
      [`?start=${start + hour}`]: false,
      '?start=x': 400,
      '?end=-1': 400,
    };
    for (const [query, found] of Object.entries(cases)) assert.equal(await count(query), found, query);
  });
});

describe('fields of a creation', () => {
  const ACCEPTED: readonly object[] = [
    { autoPause: true },
    { autoPause: false, autoPauseMemory: true },
    { autoPause: null, autoPauseMemory: null, autoResume: null },
    { autoPause: true, autoResume: { enabled: true } },
    { secure: true },
    { secure: false },
    { network: { allowPublicTraffic: true } },
    { network: { allowPublicTraffic: false } },
    { mcp: { exa: { apiKey: 'x' } } },
    { ofANewerClient: { a: 1 } },
    { network: { ofANewerClient: true } },
    { iam: {}, volumeMounts: [] },
  ];
  for (const body of ACCEPTED) {
    it(`${JSON.stringify(body)} is accepted`, async () => {
      await created(body);
    });
  }

  const REFUSED: Readonly<Record<string, object>> = {
    'network.maskRequestHost': { network: { maskRequestHost: 'a.example' } },
    'network.rules': { network: { rules: { 'a.example': [{}] } } },
    'network.egressProxy': { network: { egressProxy: { address: 'a.example:1' } } },
    volumeMounts: { volumeMounts: [{ name: 'a', path: '/a' }] },
    iam: { iam: { tokens: { a: {} } } },
  };
  for (const [name, body] of Object.entries(REFUSED)) {
    it(`${name} is refused by name, because it changes what a sandbox reaches`, async () => {
      const { status, body: answer } = await send('POST', '/v2/sandboxes', { templateID: 'base', ...body });
      assert.equal(status, 400);
      assert.match(answer.message, new RegExp(`does not have ${name} yet`));
    });
  }
});

describe('E2B’s command line', () => {
  it('E2B’s command line lists templates by E2B’s names, with every field', async () => {
    for (const path of ['/templates', '/v2/templates']) {
      const { body } = await send('GET', path);
      const names = body.flatMap(({ aliases }: { aliases: string[] }) => aliases);
      assert.ok(names.includes('base') && names.includes('code-interpreter-v1'), String(names));
      for (const template of body) {
        const missing = ['buildID', 'cpuCount', 'memoryMB', 'createdAt', 'envdVersion', 'buildStatus', 'spawnCount'];
        assert.deepEqual(
          missing.filter((field) => template[field] === undefined),
          [],
        );
      }
    }
  });

  it('E2B’s command line finds its team', async () => {
    const { status, body } = await send('GET', '/teams');
    assert.deepEqual([status, body.length, body[0].isDefault], [200, 1, true]);
    assert.match(body[0].teamID, /^org_/);
  });

  it('E2B’s command line reads the output of commands as logs, and not those of another organization', async () => {
    const { sandboxID } = await created();
    const command = { body: { command: 'print logged' }, idempotencyKey: 'logged' };
    await tenants.call(tenants.keys.whole, 'POST', `/v1/sandboxes/${sandboxID}/commands`, command);
    const path = `/sandboxes/${sandboxID}/logs`;
    const { status, body } = await send('GET', `${path}?limit=100`);
    assert.equal(status, 200);
    assert.match(JSON.stringify(body.logs), /logged/);
    assert.match(JSON.stringify((await send('GET', `/v2${path}`)).body.logs), /"message":"logged/);
    assert.deepEqual((await send('GET', `/v2${path}?cursor=${Date.now() + 60_000}`)).body.logs, []);
    for (const each of [path, `/v2${path}`]) {
      assert.equal((await send('GET', each, undefined, tenants.keys.foreign)).status, 404);
      assert.equal((await send('GET', `${each}?limit=x`)).status, 400);
    }
    assert.equal((await send('GET', '/sandboxes/sbx_none/logs')).status, 404);
  });
});
