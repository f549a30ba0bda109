import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import type { Sandbox } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service.close());

const get = async (id: string): Promise<Sandbox> => (await service.api.get(`/v1/sandboxes/${id}`)).body.sandbox;

describe('creating a sandbox', () => {
  it('creating a sandbox answers 201 with a creating sandbox of the documented fields', async () => {
    const { status, body } = await service.api.post('/v1/sandboxes', { metadata: { team: 'a' }, ttlMs: 60_000 });
    const { sandbox } = body as { sandbox: Sandbox };
    assert.equal(status, 201);
    assert.equal(sandbox.status, 'creating');
    assert.match(sandbox.id, /^sbx_/);
    assert.match(sandbox.orgId, /^org_/);
    assert.match(sandbox.projectId, /^prj_/);
    assert.match(sandbox.templateId, /^tpl_/);
    assert.match(sandbox.templateVersionId, /^tplv_/);
    assert.equal(sandbox.templateSlug, 'python-node');
    assert.equal(sandbox.ttlMs, 60_000);
    assert.deepEqual(sandbox.metadata, { team: 'a' });
    assert.deepEqual(sandbox.networkPolicy, { mode: 'unrestricted' });
    assert.equal(Date.parse(sandbox.expiresAt) - Date.parse(sandbox.createdAt), 60_000);
    assert.equal(sandbox.destroyedAt, undefined);
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });

  it('creating a sandbox needs no body, no header and no key', async () => {
    const { status, body } = await service.api.request('POST', '/v1/sandboxes');
    assert.equal(status, 201);
    assert.equal(body.sandbox.ttlMs, 3_600_000);
    await service.api.delete(`/v1/sandboxes/${body.sandbox.id}`);
  });

  it('a sandbox takes runs while it is creating: they wait for it', async () => {
    const { body } = await service.api.post('/v1/sandboxes', {});
    const run = await service.api.run(body.sandbox.id, '6 * 7');
    assert.equal(run.outputs[0]?.value, '42');
    await service.api.delete(`/v1/sandboxes/${body.sandbox.id}`);
  });

  it('pins an exact version of a template', async () => {
    const versions = (await service.api.get('/v1/templates/node/versions')).body.data;
    const { body } = await service.api.post('/v1/sandboxes', { templateVersionId: versions[0].id });
    assert.equal(body.sandbox.templateSlug, 'node');
    assert.equal(body.sandbox.templateVersionId, versions[0].id);
    const wrong = await service.api.post('/v1/sandboxes', {
      template: 'python-node',
      templateVersionId: versions[0].id,
    });
    assert.equal(wrong.body.error.code, 'invalid_request');
    const run = await service.api.run(body.sandbox.id, '1 + 1', { language: 'javascript' });
    assert.equal(run.outputs[0]?.value, '2');
    await service.api.delete(`/v1/sandboxes/${body.sandbox.id}`);
  });

  it('a new sandbox has the variables of its template, and trusts what the host trusts', async () => {
    const sandbox = await service.api.readySandbox();
    const code = "import os; (os.environ['PIP_CERT'], open(os.environ['PIP_CERT']).read().count('BEGIN CERTIFICATE'))";
    const trusted = readFileSync('/etc/ssl/certs/ca-certificates.crt', 'utf8').split('BEGIN CERTIFICATE').length - 1;
    const run = await service.api.run(sandbox.id, code);
    assert.equal(run.outputs[0]?.value, `('/etc/ssl/certs/ca-certificates.crt', ${trusted})`);
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });

  it('a new sandbox gives its env to what runs in it', async () => {
    const sandbox = await service.api.readySandbox({ env: { GREETING: 'hello' } });
    assert.equal((await service.api.run(sandbox.id, 'import os; os.environ["GREETING"]')).outputs[0]?.value, "'hello'");
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });

  for (const mode of ['allowlist', 'denylist']) {
    it(`with a ${mode} is ready under it, and says so`, async () => {
      const networkPolicy = { mode, hosts: ['b.example', 'a.example', 'b.example'] };
      const sandbox = await service.api.readySandbox({ networkPolicy });
      assert.deepEqual(sandbox.networkPolicy, { mode, hosts: ['b.example', 'a.example'] });
      const denied = `
import urllib.request, urllib.error
request = urllib.request.Request("http://192.0.2.1/", headers={"Host": "${mode === 'denylist' ? 'a' : 'c'}.example"})
try: urllib.request.urlopen(request, timeout=5)
except urllib.error.HTTPError as e: print(e.code, e.read().decode())`;
      const refused = /^403 \{"error":\{"code":"egress_denied","host":"[ac]\.example"/;
      assert.match((await service.api.run(sandbox.id, denied)).stdout, refused);
      await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
    });
  }
});

const kept = sameWithEachRuntime('the server keeps it in its database');
const timed = sameWithEachRuntime('a clock of the server; destroying a sandbox is tested with each');

describe('a live sandbox', () => {
  it('a live sandbox is ready, then running, then idle', async () => {
    const { id } = await service.api.readySandbox();
    const untilSeen = "print(1, flush=True)\nimport os, time\nwhile not os.path.exists('seen'): time.sleep(0.05)";
    const stream = service.api.stream(id, untilSeen);
    await stream.next();
    // Of several servers, each learns a moment later what runs through the others.
    await eventually(async () => (await get(id)).status === 'running');
    await service.api.post(`/v1/sandboxes/${id}/commands`, { command: 'touch seen' });
    for await (const _ of stream);
    await eventually(async () => (await get(id)).status === 'idle');
    // Of several servers, each one learns of the end by itself.
    const waited = () => service.api.get(`/v1/sandboxes/${id}?waitFor=ready&waitMs=1000`);
    await eventually(async () => (await waited()).body.sandbox.status === 'idle');
    await service.api.delete(`/v1/sandboxes/${id}`);
  });

  it(
    'live sandboxes are listed newest first, by label and by status, and historical ones only when asked for',
    kept,
    async () => {
      const label = `m${Date.now()}`;
      const ids: string[] = [];
      for (const n of [1, 2, 3]) ids.push((await service.api.readySandbox({ metadata: { label, n: String(n) } })).id);
      await service.api.delete(`/v1/sandboxes/${ids[0]}`);
      const list = async (query: string) =>
        (await service.api.get(`/v1/sandboxes?metadata.label=${label}${query}`)).body.data.map(({ id }: Sandbox) => id);
      assert.deepEqual(await list(''), [ids[2], ids[1]]);
      assert.deepEqual(await list('&include=historical'), [ids[2], ids[1], ids[0]]);
      assert.deepEqual(await list('&status=destroyed'), [ids[0]]);
      assert.deepEqual(await list('&metadata.n=2'), [ids[1]]);
      assert.equal((await service.api.get('/v1/sandboxes')).body.hasMore, false);
      for (const id of ids) await service.api.delete(`/v1/sandboxes/${id}`);
    },
  );

  it('a live sandbox is destroyed at once, and again without an error', async () => {
    const { id } = await service.api.readySandbox();
    const first = await service.api.delete(`/v1/sandboxes/${id}`);
    assert.deepEqual(
      [first.status, first.body.sandbox.status, first.body.sandbox.destroyedReason],
      [200, 'destroyed', 'user_killed'],
    );
    const second = await service.api.delete(`/v1/sandboxes/${id}`);
    assert.deepEqual(second.body, first.body);
    const run = await service.api.post(`/v1/sandboxes/${id}/code/runs`, { code: '1', language: 'python' });
    assert.deepEqual([run.status, run.body.error.code], [409, 'sandbox_destroyed']);
  });

  it('ends with ttl_expired at most a second after its time', timed, async () => {
    // Long enough that the sandbox is ready before.
    const { id } = await service.api.readySandbox({ ttlMs: 6000 });
    await eventually(async () => (await get(id)).status === 'destroyed');
    const sandbox = await get(id);
    assert.equal(sandbox.destroyedReason, 'ttl_expired');
    const lateMs = Date.parse(sandbox.destroyedAt ?? '') - Date.parse(sandbox.expiresAt);
    assert.ok(lateMs >= 0 && lateMs <= 1000, `${lateMs} ms late`);
  });

  it('ends with idle_expired after its idle timeout, counted from its last use', timed, async () => {
    const { id } = await service.api.readySandbox({ idleTimeoutMs: 1500 });
    await service.api.run(id, 'import time; time.sleep(2)');
    assert.notEqual((await get(id)).status, 'destroyed');
    await eventually(async () => (await get(id)).status === 'destroyed');
    assert.equal((await get(id)).destroyedReason, 'idle_expired');
  });
});

describe('the TTL', kept, () => {
  it('the TTL is restarted from now', async () => {
    const { id } = await service.api.readySandbox({ ttlMs: 60_000 });
    const { status, body } = await service.api.post(`/v1/sandboxes/${id}/ttl`, { ttlMs: 120_000 });
    assert.equal(status, 200);
    assert.ok(Math.abs(Date.parse(body.sandbox.expiresAt) - Date.now() - 120_000) < 5000);
    const earlier = await service.api.post(`/v1/sandboxes/${id}/ttl`, { ttlMs: 1000 });
    assert.deepEqual([earlier.status, earlier.body.error.code], [400, 'invalid_request']);
    const tooLong = await service.api.post(`/v1/sandboxes/${id}/ttl`, { ttlMs: 86_400_001 });
    assert.deepEqual([tooLong.status, tooLong.body.error.code], [422, 'sandbox_ttl_exceeded']);
    assert.ok(tooLong.body.error.details.maxTtlMs <= 86_400_000);
    const accepted = await service.api.post(`/v1/sandboxes/${id}/ttl`, {
      ttlMs: tooLong.body.error.details.maxTtlMs - 5000,
    });
    assert.equal(accepted.status, 200);
    await service.api.delete(`/v1/sandboxes/${id}`);
    const late = await service.api.post(`/v1/sandboxes/${id}/ttl`, { ttlMs: 120_000 });
    assert.deepEqual([late.status, late.body.error.code], [409, 'sandbox_destroyed']);
  });

  it('the operation of the TTL has a deprecated alias whose three headers come with errors too', async () => {
    const { id } = await service.api.readySandbox({ ttlMs: 60_000 });
    const good = await service.api.post(`/v1/sandboxes/${id}/extend`, { ttlMs: 120_000 });
    const bad = await service.api.post(`/v1/sandboxes/${id}/extend`, { ttlMs: 'long' });
    assert.deepEqual([good.status, bad.status], [200, 400]);
    for (const { headers } of [good, bad]) {
      assert.match(headers.get('deprecation') ?? '', /^@\d+$/);
      assert.equal(headers.get('sunset'), 'Sat, 10 Jul 2027 00:00:00 GMT');
      assert.match(headers.get('link') ?? '', new RegExp(`</v1/sandboxes/${id}/ttl>; rel="successor-version"`));
    }
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});

describe('the templates', kept, () => {
  it('the templates are listed with their versions, named by a digest', async () => {
    const { data } = (await service.api.get('/v1/templates')).body;
    assert.deepEqual(data.map(({ slug }: { slug: string }) => slug).sort(), ['node', 'python-node']);
    for (const template of data) {
      const versions = (await service.api.get(`/v1/templates/${template.id}/versions`)).body.data;
      assert.equal(versions[0].id, template.latestVersionId);
      assert.match(versions[0].digest, /^[0-9a-f]{64}$/);
      assert.ok(Object.keys(versions[0].packages.apt).length > 0);
    }
  });
});
