import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Answer, openTenants, type Sending, type Tenants } from '../../../testing/tenants.ts';

let tenants: Tenants;
let keys: Tenants['keys'];
let names = 0;
before(async () => {
  tenants = await openTenants();
  keys = tenants.keys;
});
after(() => tenants.close());

const newName = () => `project ${++names}`;
const create = (body: unknown, sending: Sending = {}) =>
  tenants.call(keys.whole, 'POST', '/v1/projects', { ...sending, body });
const get = (id: string, key = keys.whole) => tenants.call(key, 'GET', `/v1/projects/${id}`);
const patch = (id: string, body: unknown, key = keys.whole) =>
  tenants.call(key, 'PATCH', `/v1/projects/${id}`, { body });
const remove = (id: string, key = keys.whole) => tenants.call(key, 'DELETE', `/v1/projects/${id}`);
const list = async (key = keys.whole, query = ''): Promise<string[]> =>
  (await tenants.call(key, 'GET', `/v1/projects${query}`)).body.data.map(({ id }: { id: string }) => id);

function refused(answer: Answer, status: number, code: string, message: RegExp): void {
  assert.deepEqual([answer.status, answer.body.error?.code], [status, code], JSON.stringify(answer.body));
  assert.match(answer.body.error.message, message);
}

describe('a project', () => {
  it('a project has what its creation gave it, and what is left out is empty', async () => {
    const body = { name: 'Café', metadata: { team: 'a' }, quotas: { liveSandboxes: 0, previews: null } };
    const { status, body: answer } = await create(body);
    const { id, orgId, createdAt, updatedAt, ...rest } = answer.project;
    assert.equal(status, 201);
    assert.match(id, /^prj_/);
    assert.deepEqual(rest, { ...body, isDefault: false });
    assert.equal(updatedAt, createdAt);
    assert.deepEqual((await get(id)).body, answer);
    const { project } = (await create({ name: newName() })).body;
    assert.deepEqual([project.metadata, project.quotas, project.orgId], [{}, {}, orgId]);
  });

  it('a project changes only the given fields; labels and quotas are replaced as a whole', async () => {
    const { id } = (await create({ name: newName(), metadata: { a: '1' }, quotas: { previews: 1 } })).body.project;
    const renamed = (await patch(id, { name: newName() })).body.project;
    assert.deepEqual([renamed.metadata, renamed.quotas], [{ a: '1' }, { previews: 1 }]);
    const { project } = (await patch(id, { metadata: { b: '2' }, quotas: { webhooks: 2 } })).body;
    assert.deepEqual([project.name, project.metadata, project.quotas], [renamed.name, { b: '2' }, { webhooks: 2 }]);
    assert.deepEqual((await patch(id, {})).body.project, project);
    assert.deepEqual((await get(id)).body.project, project);
  });

  it('a project is created once for an Idempotency-Key', async () => {
    const body = { name: newName() };
    const first = await create(body, { idempotencyKey: 'once' });
    assert.deepEqual(await create(body, { idempotencyKey: 'once' }), first);
    refused(await create(body), 409, 'conflict', /body\.name/);
  });

  it('a project has a quota of a whole number that is not negative, or none', async () => {
    for (const quotas of [
      { previews: -1 },
      { previews: 1.5 },
      { previews: '1' },
      { other: 1 },
      { previews: 2 ** 53 },
    ]) {
      const answer = await create({ name: newName(), quotas });
      refused(answer, 400, 'invalid_request', /body\.quotas\.(previews|other)/);
    }
  });

  it('a project has labels of at most 4 KB', async () => {
    const metadata = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`a${index}`, 'x'.repeat(500)]));
    refused(await create({ name: newName(), metadata }), 400, 'invalid_request', /body\.metadata has 4518 bytes/);
  });
});

describe('the name of a project', () => {
  it('the name of a project is unique in its organization, in upper and lower case and in any Unicode form', async () => {
    const { id } = (await create({ name: 'Straße É' })).body.project;
    for (const name of ['STRASSE É', 'straße e\u0301', 'Straße É']) {
      refused(await create({ name }), 409, 'conflict', /body\.name/);
    }
    const other = (await create({ name: newName() })).body.project;
    refused(await patch(other.id, { name: 'strasse é' }), 409, 'conflict', /body\.name/);
    assert.equal((await patch(id, { name: 'STRASSE É' })).body.project.name, 'STRASSE É');
    assert.equal(
      (await tenants.call(keys.foreign, 'POST', '/v1/projects', { body: { name: 'straße é' } })).status,
      201,
    );
  });

  it('the name of a project goes to one of several simultaneous creations', async () => {
    const name = newName();
    const answers = await Promise.all(Array.from({ length: 8 }, () => create({ name })));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array.from({ length: 7 }, () => 409)]);
  });

  it('the name of a project is free again when the project is deleted', async () => {
    const name = newName();
    const { id } = (await create({ name })).body.project;
    await remove(id);
    assert.equal((await create({ name: name.toUpperCase() })).status, 201);
  });

  it('the name of a project has 1 to 64 characters, and no control character', async () => {
    for (const name of ['', 'x'.repeat(65), 'a\nb', 'a\u007f']) {
      refused(await create({ name }), 400, 'invalid_request', /body\.name/);
    }
    assert.equal((await create({ name: 'x'.repeat(64) })).status, 201);
  });
});

describe('deleting a project', () => {
  it('deleting a project is a conflict while sandboxes live in it, and says how many', async () => {
    const { id } = (await create({ name: newName() })).body.project;
    const sandboxes = [
      await tenants.createSandbox(keys.whole, { projectId: id }),
      await tenants.createSandbox(keys.whole, { projectId: id }),
    ];
    const answer = await remove(id);
    refused(answer, 409, 'conflict', /live sandboxes: 2/);
    assert.deepEqual(answer.body.error.details, { liveSandboxes: 2, workspaceRuns: 0 });
    for (const sandbox of sandboxes) await tenants.call(keys.whole, 'DELETE', `/v1/sandboxes/${sandbox}`);
    const deleted = await remove(id);
    assert.equal(deleted.status, 200);
    assert.ok(Date.parse(deleted.body.project.deletedAt) >= Date.parse(deleted.body.project.createdAt));
    assert.deepEqual(await remove(id), deleted);
    assert.deepEqual(await get(id), deleted);
  });

  it('deleting a project is a conflict for the default project', async () => {
    refused(await remove(tenants.defaultProjectId), 409, 'conflict', /default project/);
  });

  it('deleting a project leaves a project that accepts nothing new and no changes', async () => {
    const { id } = (await create({ name: newName() })).body.project;
    await remove(id);
    const creation = await tenants.call(keys.whole, 'POST', '/v1/sandboxes', { body: { projectId: id } });
    refused(creation, 404, 'not_found', /deleted/);
    refused(await patch(id, { name: newName() }), 404, 'not_found', /deleted/);
    await assert.rejects(tenants.createKey(undefined, [id]));
    const bound = { name: 'bound', scopes: ['*'], projectIds: [id] };
    refused(await tenants.call(keys.whole, 'POST', '/v1/api-keys', { body: bound }), 404, 'not_found', /no project/);
  });

  it('deleting a project leaves its artifacts and the records of its sandboxes readable', async () => {
    const { id } = (await create({ name: newName() })).body.project;
    const sandbox = await tenants.createSandbox(keys.whole, { projectId: id });
    const key = await tenants.createKey(undefined, [id]);
    const file = `/v1/sandboxes/${sandbox}/files/content?path=report`;
    await tenants.call(key, 'PUT', file, { body: Buffer.from('kept') });
    const exported = await tenants.call(key, 'POST', `/v1/sandboxes/${sandbox}/artifacts`, {
      body: { path: 'report' },
      idempotencyKey: 'export',
    });
    await tenants.call(key, 'DELETE', `/v1/sandboxes/${sandbox}`);
    assert.equal((await remove(id, key)).status, 200);
    const { artifact } = exported.body;
    const read = async (path: string) => (await tenants.call(key, 'GET', path)).body;
    assert.deepEqual((await read(`/v1/artifacts?projectId=${id}`)).data, [artifact]);
    assert.equal(await read(`/v1/artifacts/${artifact.id}/content`), 'kept');
    const [ended] = (await read(`/v1/sandboxes?projectId=${id}&include=historical`)).data;
    assert.equal(ended.id, sandbox);
  });

  it('deleting a project lists it with include=deleted alone', async () => {
    const { id } = (await create({ name: newName() })).body.project;
    assert.ok((await list()).includes(id));
    await remove(id);
    assert.ok(!(await list()).includes(id));
    assert.ok((await list(keys.whole, '?include=deleted')).includes(id));
  });
});

describe('a key that is bound to projects', () => {
  it('a key that is bound to projects sees and changes these alone, and creates none', async () => {
    assert.deepEqual(await list(keys.bound), [tenants.projectId]);
    assert.equal((await patch(tenants.projectId, { metadata: { by: 'bound' } }, keys.bound)).status, 200);
    refused(await patch(tenants.defaultProjectId, { metadata: {} }, keys.bound), 403, 'forbidden', /may not use/);
    refused(await remove(tenants.defaultProjectId, keys.bound), 403, 'forbidden', /may not use/);
    const creation = await tenants.call(keys.bound, 'POST', '/v1/projects', { body: { name: newName() } });
    refused(creation, 403, 'forbidden', /bound to projects/);
  });
});
