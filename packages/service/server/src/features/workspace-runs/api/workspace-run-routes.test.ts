import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { openTenants, type Tenants } from '../../../../testing/tenants.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants();
});
after(() => tenants.close());

const create = (body: object, idempotencyKey: string = randomUUID()) =>
  tenants.call(tenants.keys.whole, 'POST', '/v1/workspace-runs', { body, idempotencyKey });
const get = async (path: string) => (await tenants.call(tenants.keys.whole, 'GET', `/v1/workspace-runs${path}`)).body;

describe('creating a workspace run', () => {
  it('creating a workspace run answers the run with its settings and the resolved template, and the same for the same key', async () => {
    const body = { command: ['make', 'test'], cwd: 'src', artifacts: ['dist/**'], metadata: { team: 'a' } };
    const { status, body: answer } = await create(body, 'one');
    const run = answer.workspaceRun;
    assert.equal(status, 201);
    assert.match(run.id, /^wrun_/);
    assert.deepEqual(
      [run.status, run.command, run.cwd, run.timeoutMs, run.templateSlug, run.artifactIds],
      ['awaiting_archive', ['make', 'test'], '/workspace/src', 600_000, 'python-node', []],
    );
    assert.match(run.templateVersionId, /^tplv_/);
    assert.deepEqual((await create(body, 'one')).body, answer);
    assert.deepEqual(await get(`/${run.id}`), answer);
  });

  it('creating a workspace run checks the sandbox as its own creation does, and names each wrong field', async () => {
    const wrong: [string, object][] = [
      ['body.command', {}],
      ['body.command.0', { command: [''] }],
      ['body.timeoutMs', { command: 'true', timeoutMs: 86_400_001 }],
      ['body.ttlMs', { command: 'true', ttlMs: 1000 }],
      ['body.env.1A', { command: 'true', env: { '1A': 'x' } }],
      ['body.resources.cpu', { command: 'true', resources: { cpu: 256 } }],
      ['body.networkPolicy.hosts.0', { command: 'true', networkPolicy: { mode: 'allowlist', hosts: ['http://a'] } }],
      ['body.secrets.A', { command: 'true', env: { A: 'x' }, secrets: { A: 'sec_1' } }],
      ...['/etc/*', '../x', 'a/../b', 'a//b', 'a/', './a', '', 'a\n/..', 'a[b]', '{a,b}', 'a\\b'].map(
        (pattern): [string, object] => ['body.artifacts.0', { command: 'true', artifacts: [pattern] }],
      ),
    ];
    for (const [path, body] of wrong) {
      const { status, body: answer } = await create(body);
      assert.deepEqual([status, answer.error.code], [400, 'invalid_request'], JSON.stringify(body));
      assert.equal(answer.error.details.issues[0].path, path);
    }
    for (const pattern of ['..a', 'a..', 'a/**/b', '*', '.env', 'a b', '...']) {
      assert.equal((await create({ command: 'true', artifacts: [pattern] })).status, 201, pattern);
    }
    const missing = await create({ command: 'true', secrets: { A: 'sec_none' } });
    assert.deepEqual([missing.status, missing.body.error.code], [404, 'not_found']);
  });
});

describe('each change of a workspace run', () => {
  const digest = { sizeBytes: 1, sha256: 'a'.repeat(64), format: 'tar' };
  const upload = { headers: { 'content-type': 'application/x-tar' }, body: new Uint8Array(1024) };
  const CHANGES: readonly [method: string, path: string, sending: object][] = [
    ['POST', '', { body: { command: 'true' } }],
    ['PUT', '/ID/archive', upload],
    ['POST', '/ID/archive-transfer', { body: digest }],
    ['POST', '/ID/archive/finalize', {}],
    ['POST', '/ID/start', {}],
    ['POST', '/ID/start', { body: {} }],
  ];
  const KEYS = { 'no key': undefined, 'a key of 256 characters': 'k'.repeat(256), 'a key in Latin-1': 'é' };
  for (const [method, path, sending] of CHANGES) {
    for (const [name, idempotencyKey] of Object.entries(KEYS)) {
      it(`each change of a workspace run is refused with ${name}: ${method} ${path} ${Object.keys(sending)}`, async () => {
        const run = (await create({ command: 'true' })).body.workspaceRun;
        const before = (await get('')).data.length;
        const target = `/v1/workspace-runs${path.replace('ID', run.id)}`;
        const given = idempotencyKey === undefined ? sending : { ...sending, idempotencyKey };
        const { status, body } = await tenants.call(tenants.keys.whole, method, target, given);
        assert.deepEqual([status, body.error.code], [400, 'invalid_request']);
        assert.match(JSON.stringify(body.error.details.issues), /headers\.idempotency-key/);
        assert.equal((await get('')).data.length, before);
        assert.deepEqual((await get(`/${run.id}`)).workspaceRun, run);
      });
    }
  }
});

describe('listing workspace runs', () => {
  it('listing workspace runs gives the newest first, by status and by label', async () => {
    const made = [];
    for (const stage of ['x', 'y'])
      made.push((await create({ command: 'true', metadata: { stage } })).body.workspaceRun);
    const listed = async (query: string) => (await get(`?${query}`)).data.map(({ id }: { id: string }) => id);
    assert.deepEqual((await listed('status=awaiting_archive')).slice(0, 2), [made[1].id, made[0].id]);
    assert.deepEqual(await listed('metadata.stage=x'), [made[0].id]);
    assert.deepEqual(await listed('metadata.stage=x&status=queued'), []);
  });
});

it('waiting for the end of a workspace run answers the run as it is when the time is up', async () => {
  const { id } = (await create({ command: 'true' })).body.workspaceRun;
  assert.equal((await get(`/${id}?waitFor=finished&waitMs=20`)).workspaceRun.status, 'awaiting_archive');
});

it('canceling a workspace run that was not started ends it, once', async () => {
  const { id } = (await create({ command: 'true' })).body.workspaceRun;
  const cancel = () => tenants.call(tenants.keys.whole, 'POST', `/v1/workspace-runs/${id}/cancel`);
  const { status, body } = await cancel();
  assert.deepEqual([status, body.workspaceRun.status], [200, 'canceled']);
  assert.ok(Date.parse(body.workspaceRun.finishedAt) <= Date.now());
  assert.deepEqual((await cancel()).body, body);
});
