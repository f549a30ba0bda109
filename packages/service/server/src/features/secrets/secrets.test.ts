import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { PLACEHOLDERS, type SecretQuestion } from '@cloche/protocol';
import type { ApiAnswer } from '../../../testing/call-api.ts';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';
import { createSecret, placesOf, SECRET_HOSTS, SECRET_VALUE } from '../../../testing/secrets.ts';
import { hashBody } from '../../platform/idempotency/hash-body.ts';

let world: KeyWorld;
beforeEach(async () => {
  world = await openKeyWorld();
});
afterEach(() => world.close());

const create = (body: object = {}, idempotencyKey?: string) => createSecret(world, body, idempotencyKey);
const createId = async (body: object = {}): Promise<string> => (await create(body)).body.secret.id;
const change = (id: string, body: object) => world.call('PATCH', `/v1/secrets/${id}`, { body });
const keyFile = () => join(world.folder, 'data/server/secrets-key');

/** Creates a sandbox with secrets and returns its id and its environment. */
async function sandboxWith(secrets: Record<string, string>, body: object = { networkPolicy: { mode: 'deny-all' } }) {
  const { sandbox } = (await world.call('POST', '/v1/sandboxes', { body: { secrets, ...body } })).body;
  await world.call('GET', `/v1/sandboxes/${sandbox.id}?waitFor=ready`);
  return { sandboxId: sandbox.id as string, env: world.driver.agentOf(sandbox.id).environment, sandbox };
}

/** Asks as egress does. */
function ask(sandboxId: string, questions: readonly SecretQuestion[]): Promise<ApiAnswer['body']> {
  return new Promise((resolve, reject) => {
    const socketPath = join(world.folder, 'run/secrets/secrets.sock');
    const headers = { 'content-type': 'application/json' };
    const sent = request({ socketPath, method: 'POST', path: '/values', headers, agent: false }, async (response) => {
      resolve(JSON.parse((await response.setEncoding('utf8').toArray()).join('')));
    });
    sent.once('error', reject).end(JSON.stringify({ sandboxId, questions }));
  });
}
const named = (name: string): SecretQuestion['host'] => ({ kind: 'name', name });
const valueFor = async (sandboxId: string, placeholder = '', host = named('api.test')): Promise<string | null> =>
  (await ask(sandboxId, [{ placeholder, host }])).values[0];

describe('the value of a secret', () => {
  it('the value of a secret is created once for one Idempotency-Key, and another value with it is refused', async () => {
    const first = await create({}, 'once');
    assert.deepEqual((await create({}, 'once')).body, first.body);
    assert.equal((await create({ value: 'another' }, 'once')).body.error.code, 'idempotency_key_reused');
    assert.equal((await world.call('GET', '/v1/secrets')).body.data.length, 1);
  });

  it('the value of a secret is in no file and no line of the log as it is, nor is a hash of the request that had it', async () => {
    const body = { hosts: SECRET_HOSTS, name: 'payments', value: SECRET_VALUE };
    await create({}, 'once');
    await sandboxWith({ KEY: await createId() });
    await world.restart();
    const hash = hashBody(body);
    for (const text of [SECRET_VALUE, Buffer.from(SECRET_VALUE).toString('base64').slice(0, -3), hash]) {
      assert.deepEqual(await placesOf(world, text), []);
    }
    // Control: the same search finds what is stored, and the hash of a request that has no secret.
    assert.ok((await placesOf(world, 'payments')).length > 0);
    const metadata = { metadata: { a: 'b' } };
    await world.call('POST', '/v1/sandboxes', { body: metadata, idempotencyKey: 'other' });
    await world.restart();
    assert.ok((await placesOf(world, hashBody(metadata))).length > 0);
  });

  it('the value of a secret is encrypted with a key in a file of the server alone, and bound to its secret', async () => {
    const { mode } = statSync(keyFile());
    assert.equal(mode & 0o777, 0o600);
    const key = readFileSync(keyFile(), 'utf8').trim();
    assert.match(key, /^[0-9a-f]{64}$/);
    assert.deepEqual(await placesOf(world, key), [keyFile()]);
    const [id, other] = [await createId(), await createId({ value: 'of another secret' })];
    const { sandboxId, env } = await sandboxWith({ KEY: id });
    assert.equal(await valueFor(sandboxId, env.KEY), SECRET_VALUE);
    await world.stored.execute(
      `update secrets set value = (select value from secrets where id = '${other}') where id = '${id}'`,
    );
    assert.equal(
      (await ask(sandboxId, [{ placeholder: env.KEY ?? '', host: named('api.test') }])).error.code,
      'internal',
    );
  });

  it('the value of a secret is not served while others can read the file of the key', async () => {
    chmodSync(keyFile(), 0o640);
    await assert.rejects(world.restart(), /others can read .*secrets-key/);
    chmodSync(keyFile(), 0o600);
    await world.restart();
  });
});

describe('a sandbox with secrets', () => {
  it('a sandbox with secrets has placeholders of its own in its environment, and no value', async () => {
    const secrets = { KEY: await createId(), OTHER: await createId() };
    const [one, two] = [await sandboxWith(secrets), await sandboxWith(secrets)];
    const placeholders = [one, two].flatMap(({ env }) => [env.KEY ?? '', env.OTHER ?? '']);
    for (const each of placeholders) assert.deepEqual(each.match(PLACEHOLDERS), [each]);
    assert.equal(new Set(placeholders).size, 4);
    assert.doesNotMatch(JSON.stringify([one.sandbox, one.env]), new RegExp(SECRET_VALUE));
  });

  it('a sandbox with secrets has its placeholders replaced for the hosts of the secret alone', async () => {
    const { sandboxId, env } = await sandboxWith({ KEY: await createId() });
    const to = (host: SecretQuestion['host']) => valueFor(sandboxId, env.KEY, host);
    for (const name of ['api.test', 'a.wild.test', 'b.a.wild.test'])
      assert.equal(await to(named(name)), SECRET_VALUE, name);
    assert.equal(await to({ kind: 'ipv4', address: '192.0.2.1' }), SECRET_VALUE);
    for (const name of ['wild.test', 'xapi.test', 'api.test.evil', 'evil.api.test']) {
      assert.equal(await to(named(name)), null, name);
    }
    assert.equal(await to({ kind: 'ipv4', address: '192.0.2.2' }), null);
  });

  it('a sandbox with secrets gets no value for the placeholder of another sandbox, nor after its end', async () => {
    const id = await createId();
    const [one, two, none] = [await sandboxWith({ KEY: id }), await sandboxWith({ KEY: id }), await sandboxWith({})];
    assert.equal(await valueFor(one.sandboxId, two.env.KEY), null);
    assert.equal(await valueFor(none.sandboxId, two.env.KEY), null);
    assert.equal(await valueFor('sbx_unknown', two.env.KEY), null);
    assert.equal(await valueFor(two.sandboxId, two.env.KEY), SECRET_VALUE);
    await world.call('DELETE', `/v1/sandboxes/${two.sandboxId}`);
    assert.equal(await valueFor(two.sandboxId, two.env.KEY), null);
  });

  it('a sandbox with secrets has a changed secret at once, a deleted one no longer, and both also after a restart', async () => {
    const id = await createId();
    const { sandboxId, env } = await sandboxWith({ KEY: id });
    await change(id, { value: 'the next value' });
    assert.equal(await valueFor(sandboxId, env.KEY), 'the next value');
    await world.restart();
    assert.equal(await valueFor(sandboxId, env.KEY), 'the next value');
    await change(id, { hosts: ['other.test'], value: 'the next value' });
    assert.deepEqual(
      [await valueFor(sandboxId, env.KEY), await valueFor(sandboxId, env.KEY, named('other.test'))],
      [null, 'the next value'],
    );
    await world.call('DELETE', `/v1/secrets/${id}`);
    assert.equal(await valueFor(sandboxId, env.KEY, named('other.test')), null);
    assert.ok(!(await readSecrets()).includes('the next value'));
  });

  it('a sandbox with secrets is refused for a variable of `env`, for too many, and for a secret that is not there', async () => {
    const id = await createId();
    const attempt = (body: object) => world.call('POST', '/v1/sandboxes', { body });
    const issueOf = async (body: object) => (await attempt(body)).body.error.details?.issues[0].path;
    assert.equal(await issueOf({ env: { KEY: 'x' }, secrets: { KEY: id } }), 'body.secrets.KEY');
    const many = (count: number, value: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${value.slice(0, 3)}_${index}`, value]));
    assert.equal(await issueOf({ secrets: many(LIMITS.secretsPerSandbox + 1, id) }), 'body.secrets');
    const env = many(LIMITS.envEntries - LIMITS.secretsPerSandbox + 1, 'value');
    assert.equal(await issueOf({ env, secrets: many(LIMITS.secretsPerSandbox, id) }), 'body.secrets');
    assert.equal((await attempt({ secrets: { 'no name': id } })).status, 400);
    const project = (await world.call('POST', '/v1/projects', { body: { name: 'other' } })).body.project.id;
    const deleted = await createId();
    await world.call('DELETE', `/v1/secrets/${deleted}`);
    for (const secret of ['sec_none', deleted, await createId({ projectId: project })]) {
      const { status, body } = await attempt({ secrets: { A: id, KEY: secret } });
      assert.deepEqual([status, body.error.code], [404, 'not_found'], secret);
    }
    assert.equal((await attempt({ projectId: project, secrets: { KEY: id } })).status, 404);
    assert.deepEqual((await world.call('GET', '/v1/sandboxes')).body.data, []);
  });

  it('a sandbox with secrets sends its traffic to the gateway also if it is unrestricted', async () => {
    const secrets = { KEY: await createId() };
    const { sandbox } = (await world.call('POST', '/v1/sandboxes', { body: { secrets } })).body;
    await world.call('POST', '/v1/sandboxes', { body: { secrets: {} } });
    await world.call('POST', '/v1/sandboxes', { body: { secrets, networkPolicy: { mode: 'deny-all' } } });
    assert.deepEqual(sandbox.networkPolicy, { mode: 'unrestricted' });
    const launched = world.driver.launches.map(({ spec }) => spec.network);
    assert.deepEqual(launched, [{ mode: 'denylist', hosts: [] }, { mode: 'unrestricted' }, { mode: 'deny-all' }]);
  });
});

describe('a rotation', () => {
  it('a rotation encrypts all secrets with a new key, and deletes the old one', async () => {
    const before = readFileSync(keyFile(), 'utf8');
    const ids = await Promise.all(Array.from({ length: 3 }, () => createId()));
    const { sandboxId, env } = await sandboxWith({ KEY: ids[0] ?? '' });
    const sealed = await readSecrets();
    assert.deepEqual(await world.operator('POST', '/rotate-secrets'), { rotated: 3 });
    assert.notEqual(readFileSync(keyFile(), 'utf8'), before);
    assert.match(readFileSync(keyFile(), 'utf8'), /^[0-9a-f]{64}\n$/);
    assert.notEqual(await readSecrets(), sealed);
    assert.equal(await valueFor(sandboxId, env.KEY), SECRET_VALUE);
    await world.restart();
    assert.equal(await valueFor(sandboxId, env.KEY), SECRET_VALUE);
    // Control: the old key alone does not decrypt what is stored now.
    writeFileSync(keyFile(), before);
    await world.restart();
    assert.equal(
      (await ask(sandboxId, [{ placeholder: env.KEY ?? '', host: named('api.test') }])).error.code,
      'internal',
    );
  });

  it('a rotation that was interrupted loses nothing: both keys decrypt, and the next one finishes it', async () => {
    const { sandboxId, env } = await sandboxWith({ KEY: await createId() });
    writeFileSync(keyFile(), `${'ab'.repeat(32)}\n${readFileSync(keyFile(), 'utf8')}`);
    await world.restart();
    assert.equal(await valueFor(sandboxId, env.KEY), SECRET_VALUE);
    assert.deepEqual(await world.operator('POST', '/rotate-secrets'), { rotated: 1 });
    assert.equal(readFileSync(keyFile(), 'utf8').length, 65);
    assert.equal(await valueFor(sandboxId, env.KEY), SECRET_VALUE);
  });

  it('a rotation cannot be decrypted when the file of the key is lost', async () => {
    const { sandboxId, env } = await sandboxWith({ KEY: await createId() });
    rmSync(keyFile());
    await world.restart();
    assert.equal(
      (await ask(sandboxId, [{ placeholder: env.KEY ?? '', host: named('api.test') }])).error.code,
      'internal',
    );
  });

  it('a rotation is encrypted with the first key of CLOCHE_SECRETS_KEY and decrypted with each, without a file', async () => {
    const [old, next] = ['01'.repeat(32), '02'.repeat(32)];
    await world.close();
    world = await openKeyWorld(undefined, { CLOCHE_SECRETS_KEY: old });
    const { sandboxId, env } = await sandboxWith({ KEY: await createId() });
    const valueWith = async (keys: string) => {
      await world.restart({ CLOCHE_SECRETS_KEY: keys });
      const answer = await ask(sandboxId, [{ placeholder: env.KEY ?? '', host: named('api.test') }]);
      return answer.values?.[0] ?? answer.error.code;
    };

    assert.equal(await valueWith(next), 'internal');
    assert.equal(await valueWith(`${next},${old}`), SECRET_VALUE);
    assert.deepEqual(await world.operator('POST', '/rotate-secrets'), { rotated: 1 });
    assert.equal(await valueWith(old), 'internal');
    assert.equal(await valueWith(next), SECRET_VALUE);
    assert.ok(!existsSync(keyFile()));
  });
});

async function readSecrets(): Promise<string> {
  return JSON.stringify(await world.stored.execute('select id, value from secrets order by id'));
}
