import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';
import { createSecret, placesOf, SECRET_HOSTS } from '../../../testing/secrets.ts';

let world: KeyWorld;
beforeEach(async () => {
  world = await openKeyWorld();
});
afterEach(() => world.close());

const create = (body: object = {}) => createSecret(world, body);
const createId = async (body: object = {}): Promise<string> => (await create(body)).body.secret.id;
const change = (id: string, body: object) => world.call('PATCH', `/v1/secrets/${id}`, { body });

describe('the operations on secrets', () => {
  it('the operations on secrets create, list, get, change and delete one, and never show its value', async () => {
    const { status, body } = await create({ hosts: [...SECRET_HOSTS, 'api.test'] });
    const { secret } = body;
    assert.equal(status, 201);
    assert.deepEqual(Object.keys(secret).sort(), [
      'createdAt',
      'hosts',
      'id',
      'name',
      'orgId',
      'projectId',
      'updatedAt',
    ]);
    assert.deepEqual([secret.name, secret.hosts], ['payments', SECRET_HOSTS]);
    const path = `/v1/secrets/${secret.id}`;
    assert.deepEqual((await world.call('GET', path)).body, { secret });
    assert.deepEqual((await world.call('GET', '/v1/secrets')).body, { data: [secret], hasMore: false });
    const changed = (await change(secret.id, { hosts: ['other.test'], value: 'another' })).body;
    assert.deepEqual(changed.secret, { ...secret, hosts: ['other.test'], updatedAt: changed.secret.updatedAt });
    const deleted = await world.call('DELETE', path);
    assert.ok(Date.parse(deleted.body.secret.deletedAt) <= Date.now());
    assert.deepEqual((await world.call('DELETE', path)).body, deleted.body);
    assert.deepEqual((await world.call('GET', '/v1/secrets')).body.data, []);
    assert.equal((await change(secret.id, { value: 'x' })).status, 404);
  });

  it('the operations on secrets refuse values, names and hosts that cannot be, without repeating the value', async () => {
    const wrong: [string, object][] = [
      ['body.value', { value: '' }],
      ['body.value', { value: 'x'.repeat(LIMITS.secretValueLength + 1) }],
      ...['\r', '\n', '\0', '\x7f'].map((end): [string, object] => ['body.value', { value: `visible${end}` }]),
      ['body.name', { name: '' }],
      ['body.name', { name: 'a\nb' }],
      ['body.hosts', { hosts: [] }],
      ['body.hosts.1', { hosts: ['api.test', 'https://api.test'] }],
    ];
    for (const [path, body] of wrong) {
      const { status, body: answer } = await create(body);
      assert.deepEqual([status, answer.error.code], [400, 'invalid_request'], JSON.stringify(body));
      assert.equal(answer.error.details.issues[0].path, path);
      assert.doesNotMatch(JSON.stringify(answer), /visible|payments-api/);
    }
    assert.equal((await create({ value: `tab\tand ${'x'.repeat(LIMITS.secretValueLength - 8)}` })).status, 201);
    const id = await createId();
    assert.equal((await change(id, { value: 'a\nb' })).status, 400);
    assert.equal((await change(id, { hosts: ['*'] })).status, 400);
    assert.deepEqual(await placesOf(world, 'visible'), []);
  });

  it('the operations on secrets send a value to a further host only for a caller that gives the value', async () => {
    const id = await createId({ hosts: ['api.test', '*.example.test'] });
    const hosts = async () => (await world.call('GET', `/v1/secrets/${id}`)).body.secret.hosts;
    for (const wanted of [['collector.test'], ['api.test', 'collector.test'], ['example.test'], ['*.api.test']]) {
      const { status, body } = await change(id, { hosts: wanted });
      assert.deepEqual([status, body.error.code], [400, 'invalid_request'], String(wanted));
      assert.equal(body.error.details.issues[0].path, `body.hosts.${wanted.length - 1}`);
    }
    assert.deepEqual(await hosts(), ['api.test', '*.example.test']);
    assert.equal((await change(id, { hosts: ['api.test'] })).status, 200);
    // It is no host of the secret any more.
    assert.equal((await change(id, { hosts: ['api.test', '*.example.test'] })).status, 400);
    assert.equal((await change(id, { hosts: ['collector.test'], value: 'another' })).status, 200);
    assert.deepEqual(await hosts(), ['collector.test']);
  });

  it('the operations on secrets have their hosts before and after a change in its audit event', async () => {
    const id = await createId({ hosts: ['a.test', 'b.test'] });
    await change(id, { hosts: ['b.test'] });
    await change(id, { value: 'another' });
    const { data } = (await world.call('GET', '/v1/audit-events')).body;
    const changes = data.filter(({ target }: { target: { id: string } }) => target.id === id);
    assert.deepEqual(
      changes.map(({ action, changes }: { action: string; changes?: object }) => [action, changes]),
      [
        ['secret.created', undefined],
        ['secret.updated', { hosts: { before: ['a.test', 'b.test'], after: ['b.test'] } }],
        ['secret.updated', undefined],
      ],
    );
    const [verified] = (await world.operator('GET', '/audit/verify')).data;
    assert.equal(verified.problemCount, 0);
    assert.ok(verified.events >= changes.length);
  });

  it('the operations on secrets have a quota, which deleted ones do not count for', async () => {
    const { orgId } = (await create()).body.secret;
    await world.operator('PATCH', `/orgs/${orgId}/quotas`, { secrets: 2 });
    const id = await createId();
    const { status, body } = await create();
    assert.deepEqual([status, body.error.details], [429, { quota: 'secrets', limit: 2, used: 2 }]);
    await world.call('DELETE', `/v1/secrets/${id}`);
    assert.equal((await create()).status, 201);
  });

  it('the operations on secrets need their scopes', async () => {
    const [reader, writer] = await Promise.all(
      ['secret:read', 'secret:write'].map((scope) => world.create({ scopes: [scope] })),
    );
    const status = async (key: string | undefined, method: string) =>
      (
        await world.call(method, '/v1/secrets', {
          ...(key && { key }),
          ...(method === 'POST' && { body: { name: 'x', value: 'y', hosts: ['a.test'] } }),
        })
      ).status;
    assert.deepEqual([await status(reader?.secret, 'GET'), await status(reader?.secret, 'POST')], [200, 403]);
    assert.deepEqual([await status(writer?.secret, 'GET'), await status(writer?.secret, 'POST')], [403, 201]);
  });
});
