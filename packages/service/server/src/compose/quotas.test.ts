/** Quotas as clients and the operator meet them: a whole server on a fake runtime, called over real sockets. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import type { ProjectQuotas, QuotaUse } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { type Answer, openTenants, type Tenants } from '../../testing/tenants.ts';

let tenants: Tenants;
let key: string;

before(async () => {
  tenants = await openTenants();
  key = tenants.keys.whole;
});
after(() => tenants.close());
afterEach(async () => {
  const { data } = (await call('GET', '/v1/quotas')).body;
  await limit(Object.fromEntries(data.map(({ quota }: QuotaUse) => [quota, null])));
  await call('PATCH', `/v1/projects/${tenants.projectId}`, { quotas: {} });
  const live = (await call('GET', '/v1/sandboxes')).body.data;
  await Promise.all(live.map(({ id }: { id: string }) => call('DELETE', `/v1/sandboxes/${id}`)));
});

const call = (method: string, path: string, body?: unknown, idempotencyKey?: string): Promise<Answer> =>
  tenants.call(key, method, path, { body, ...(idempotencyKey && { idempotencyKey }) });
const limit = (quotas: ProjectQuotas) => tenants.operator('/orgs/default/quotas', quotas, 'PATCH');
const atOnce = (count: number, send: (index: number) => Promise<Answer>) =>
  Promise.all(Array.from({ length: count }, (_, index) => send(index)));
const useOf = async (quota: string, query = ''): Promise<QuotaUse> =>
  (await call('GET', `/v1/quotas${query}`)).body.data.find((use: QuotaUse) => use.quota === quota);

/** Returns how many answers have each status. */
function statuses(answers: readonly Answer[]): Record<number, number> {
  return Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, same]) => [status, same.length]),
  );
}

describe('quotas', () => {
  it('quotas let 10 of 100 simultaneous creations through under a limit of 10', async () => {
    await limit({ liveSandboxes: 10 });
    const answers = await atOnce(100, () => call('POST', '/v1/sandboxes', {}, randomUUID()));
    assert.deepEqual(statuses(answers), { 201: 10, 429: 90 });
    for (const { status, body } of answers) {
      if (status === 201) continue;
      assert.equal(body.error.code, 'quota_exceeded');
      assert.deepEqual(body.error.details, { quota: 'liveSandboxes', limit: 10, used: 10 });
    }
    assert.equal((await call('GET', '/v1/sandboxes')).body.data.length, 10);
    assert.deepEqual(await useOf('liveSandboxes'), { quota: 'liveSandboxes', limit: 10, used: 10 });
  });

  it('quotas leave no idempotency record at a refusal: the same key succeeds once there is room', async () => {
    await limit({ liveSandboxes: 1 });
    const { sandbox } = (await call('POST', '/v1/sandboxes', {})).body;
    assert.equal((await call('POST', '/v1/sandboxes', {}, 'again')).status, 429);
    await call('DELETE', `/v1/sandboxes/${sandbox.id}`);
    assert.equal((await call('POST', '/v1/sandboxes', {}, 'again')).status, 201);
  });

  it('quotas of a project are refused above those of the organization, and show in its list', async () => {
    await limit({ liveSandboxes: 10 });
    const path = `/v1/projects/${tenants.projectId}`;
    const refused = await call('PATCH', path, { quotas: { liveSandboxes: 11 } });
    assert.equal(refused.body.error.details.issues[0].path, 'body.quotas.liveSandboxes');
    const creation = await call('POST', '/v1/projects', { name: 'too much', quotas: { liveSandboxes: 11 } });
    assert.deepEqual([refused.status, creation.status], [400, 400]);
    assert.equal((await call('PATCH', path, { quotas: { liveSandboxes: 1 } })).status, 200);
    const body = { projectId: tenants.projectId };
    const answers = await atOnce(20, () => call('POST', '/v1/sandboxes', body));
    assert.deepEqual(statuses(answers), { 201: 1, 429: 19 });
    const use = { quota: 'liveSandboxes', limit: 1, used: 1, project: tenants.projectId };
    assert.deepEqual(await useOf('liveSandboxes', `?projectId=${tenants.projectId}`), use);
    const { data } = (await tenants.call(tenants.keys.bound, 'GET', '/v1/quotas')).body;
    assert.deepEqual(data[0], use);
    assert.ok(data.every(({ project }: QuotaUse) => project === tenants.projectId));
    const foreign = (await tenants.call(tenants.keys.foreign, 'GET', '/v1/quotas')).body.data;
    assert.deepEqual(foreign[0], { quota: 'liveSandboxes', limit: null, used: 0 });
  });

  it('quotas of creations in a minute stand in the headers of their answers, after those of requests', async () => {
    const create = () =>
      fetch(`${tenants.server.url}/v1/sandboxes`, {
        method: 'POST',
        headers: { authorization: `Bearer ${tenants.keys.foreign}`, 'content-type': 'application/json' },
        body: '{}',
      });
    const fields = ({ headers }: Response) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];
    assert.deepEqual(fields(await create()), [null, null]);
    await tenants.operator('/orgs/other/quotas', { sandboxesPerMinute: 2 }, 'PATCH');
    const created = await create();
    assert.deepEqual([created.status, fields(created)[0]], [201, '"organization/sandboxes";q=2;w=60']);
    assert.match(fields(created)[1] ?? '', /^"organization\/sandboxes";r=0;t=\d+$/);
    await tenants.operator('/orgs/other/quotas', { requestsPerMinute: 1000 }, 'PATCH');
    let refused = created;
    const isLimited = async () => {
      refused = await create();
      return (fields(refused)[0] ?? '').startsWith('"organization";q=1000');
    };
    await eventually(isLimited, { because: 'the limit of requests was set' });
    const { error } = (await refused.json()) as { error: { code: string } };
    assert.deepEqual([refused.status, error.code], [429, 'rate_limited']);
    assert.equal(fields(refused)[0], '"organization";q=1000;w=60, "organization/sandboxes";q=2;w=60');
    const [, left = ''] = fields(refused);
    assert.match(left ?? '', /^"organization";r=9\d\d;t=\d+, "organization\/sandboxes";r=0;t=\d+$/);
    assert.equal(/t=(\d+)$/.exec(left ?? '')?.[1], refused.headers.get('retry-after'));
    await tenants.operator('/orgs/other/quotas', { sandboxesPerMinute: null, requestsPerMinute: null }, 'PATCH');
  });

  it('quotas of requests stand in the headers of every answer, and refuse with Retry-After what is too much', async () => {
    const send = async () =>
      fetch(`${tenants.server.url}/v1/projects`, { headers: { authorization: `Bearer ${key}` } });
    assert.equal((await send()).headers.get('ratelimit-policy'), null);
    await limit({ requestsPerMinute: 50 });
    // The server caches limits for a second.
    let first = await send();
    const isLimited = async () => {
      first = await send();
      return first.headers.has('ratelimit-policy');
    };
    await eventually(isLimited, { because: 'the limit was set' });
    assert.equal(first.headers.get('ratelimit-policy'), '"organization";q=50;w=60');
    const left = Number(/r=(\d+)/.exec(first.headers.get('ratelimit') ?? '')?.[1]);
    const answers = await Promise.all(Array.from({ length: 100 }, send));
    assert.equal(answers.filter(({ status }) => status === 200).length, left);
    const refused = answers.find(({ status }) => status === 429);
    assert.match(refused?.headers.get('ratelimit') ?? '', /^"organization";r=0;t=\d+$/);
    assert.ok(Number(refused?.headers.get('retry-after')) >= 1);
    const body = (await refused?.json()) as { error: { code: string } };
    assert.equal(body.error.code, 'rate_limited');
    await limit({ requestsPerMinute: null });
    await eventually(async () => (await send()).status === 200, { because: 'the limit was removed' });
  });

  it('announce refusals once in a minute', async () => {
    await limit({ previews: 0 });
    const sandboxId = await tenants.createSandbox(key);
    const path = `/v1/sandboxes/${sandboxId}/previews`;
    const answers = await atOnce(5, (index) => call('POST', path, { port: 8000 + index }));
    assert.deepEqual(statuses(answers), { 429: 5 });
    const { data } = (await call('GET', '/v1/events?types=quota.exceeded&limit=500')).body;
    const about = data.filter((event: { data: { quota: QuotaUse } }) => event.data.quota.quota === 'previews');
    assert.deepEqual(
      about.map((event: { data: unknown }) => event.data),
      [{ quota: { quota: 'previews', limit: 0, used: 0 } }],
    );
  });
});

describe('a quota of previews', () => {
  it('a quota of previews counts open previews alone, exactly', async () => {
    await limit({ previews: 3 });
    const sandboxId = await tenants.createSandbox(key);
    const path = `/v1/sandboxes/${sandboxId}/previews`;
    const answers = await atOnce(20, (index) => call('POST', path, { port: 8000 + index }));
    assert.deepEqual(statuses(answers), { 201: 3, 429: 17 });
    const open = answers.find(({ status }) => status === 201)?.body.preview;
    await call('DELETE', `/v1/previews/${open.id}`);
    assert.equal((await useOf('previews')).used, 2);
    assert.equal((await call('POST', path, { port: 9000 })).status, 201);
    await call('DELETE', `/v1/sandboxes/${sandboxId}`);
    assert.equal((await useOf('previews')).used, 0);
  });
});

describe('a quota of webhooks', () => {
  const create = () => call('POST', '/v1/webhooks', { url: 'https://localhost/', events: ['*'] }, randomUUID());

  it('a quota of webhooks is exact at 100 simultaneous creations, and gives room again for each deleted one', async () => {
    await limit({ webhooks: 10 });
    const answers = await atOnce(100, create);
    assert.deepEqual(statuses(answers), { 201: 10, 429: 90 });
    const refused = answers.find(({ status }) => status === 429)?.body.error;
    assert.deepEqual([refused.code, refused.details], ['quota_exceeded', { quota: 'webhooks', limit: 10, used: 10 }]);
    const { data } = (await call('GET', '/v1/webhooks')).body;
    assert.deepEqual([data.length, (await useOf('webhooks')).used], [10, 10]);
    await call('DELETE', `/v1/webhooks/${data[0].id}`);
    assert.equal((await useOf('webhooks')).used, 9);
    assert.deepEqual(statuses(await atOnce(3, create)), { 201: 1, 429: 2 });
    for (const { id } of (await call('GET', '/v1/webhooks')).body.data) await call('DELETE', `/v1/webhooks/${id}`);
    assert.equal((await useOf('webhooks')).used, 0);
  });

  it('a quota of webhooks of a project counts those of this project alone', async () => {
    await call('PATCH', `/v1/projects/${tenants.projectId}`, { quotas: { webhooks: 1 } });
    const ofProject = { url: 'https://localhost/', events: ['*'], projectId: tenants.projectId };
    const answers = await atOnce(3, () => call('POST', '/v1/webhooks', ofProject));
    assert.deepEqual(statuses(answers), { 201: 1, 429: 2 });
    assert.equal((await create()).status, 201);
    for (const { id } of (await call('GET', '/v1/webhooks')).body.data) await call('DELETE', `/v1/webhooks/${id}`);
  });
});

describe('a quota of artifact bytes', () => {
  const contents = () => globSync(join(tenants.folder, 'data/server/artifacts/**/*'), { withFileTypes: true });
  const stored = () => contents().filter((entry) => entry.isFile()).length;

  async function writeFiles(sandboxId: string, files: Readonly<Record<string, Buffer>>): Promise<void> {
    for (const [path, body] of Object.entries(files)) {
      const url = `/v1/sandboxes/${sandboxId}/files/content?path=${path}`;
      assert.ok((await tenants.call(key, 'PUT', url, { body })).status < 300);
    }
  }
  const exporting = (sandboxId: string) => (path: string) =>
    call('POST', `/v1/sandboxes/${sandboxId}/artifacts`, { path }, randomUUID());

  /** Repeats an export that a busy machine has refused with `unavailable`, as clients do. */
  const answeredExport = (sandboxId: string) => async (path: string) => {
    let answer = await exporting(sandboxId)(path);
    for (let tries = 1; answer.status === 503 && tries < 20; tries++) answer = await exporting(sandboxId)(path);
    return answer;
  };

  it('a quota of artifact bytes is exact at 100 simultaneous exports, and nothing refused stays in the store', async () => {
    const sandboxId = await tenants.createSandbox(key);
    const names = Array.from({ length: 100 }, (_, index) => `file-${index}`);
    await writeFiles(sandboxId, Object.fromEntries(names.map((name) => [name, randomBytes(1000)])));
    await limit({ artifactBytes: 10_500 });
    const before = stored();
    const answers = await Promise.all(names.map(answeredExport(sandboxId)));
    assert.deepEqual(statuses(answers), { 201: 10, 429: 90 });
    assert.equal(stored() - before, 10);
    assert.equal((await useOf('artifactBytes')).used, 10_000);
    const made = answers.filter(({ status }) => status === 201).map(({ body }) => body.artifact.id);
    await Promise.all(made.map((id) => call('DELETE', `/v1/artifacts/${id}`)));
    assert.equal((await useOf('artifactBytes')).used, 0);
    await eventually(() => stored() === before, { because: 'contents are removed after the answers' });
  });

  it('a quota of artifact bytes counts equal contents of a project once', async () => {
    const content = randomBytes(1000);
    await limit({ artifactBytes: 2000 });
    const first = await tenants.createSandbox(key);
    const second = await tenants.createSandbox(key, { projectId: tenants.projectId });
    for (const id of [first, second]) await writeFiles(id, { a: content, b: content, c: randomBytes(1) });
    const answers = [];
    for (const id of [first, second]) {
      for (const path of ['a', 'b']) answers.push(await exporting(id)(path));
    }
    assert.deepEqual(statuses(answers), { 201: 4 });
    assert.equal((await useOf('artifactBytes')).used, 2000);
    assert.deepEqual((await exporting(first)('c')).body.error.details, {
      quota: 'artifactBytes',
      limit: 2000,
      used: 2000,
    });
  });
});
