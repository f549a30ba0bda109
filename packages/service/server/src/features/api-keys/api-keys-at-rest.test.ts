import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ApiAnswer } from '../../../testing/call-api.ts';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';
import { placesOf } from '../../../testing/secrets.ts';

let world: KeyWorld;
beforeEach(async () => {
  world = await openKeyWorld('a key that a person chose');
});
afterEach(() => world.close());

const body = { name: 'ci', scopes: ['*'] };

function create(idempotencyKey: string, key?: string): Promise<ApiAnswer> {
  return world.call('POST', '/v1/api-keys', { body, idempotencyKey, ...(key === undefined ? {} : { key }) });
}

describe('the secret of a new key', () => {
  it('the secret of a new key is returned once more to the same key with the same Idempotency-Key, also after a restart', async () => {
    const first = await create('once');
    assert.equal(first.status, 201);
    const again = await create('once');
    assert.deepEqual([again.status, again.body], [201, first.body]);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    await world.restart();
    assert.deepEqual((await create('once')).body, first.body);
    assert.equal((await world.call('GET', '/v1/api-keys')).body.data.length, 2);
  });

  it('the secret of a new key is returned to a generated key too, and to no other key', async () => {
    const [one, other] = [await world.create(), await world.create()];
    const first = await create('once', one.secret);
    assert.deepEqual((await create('once', one.secret)).body, first.body);
    const foreign = await create('once', other.secret);
    assert.equal(foreign.status, 201);
    assert.notEqual(foreign.body.secret, first.body.secret);
  });

  it('the secret of a new key is in no file and no log line, neither is the Idempotency-Key, before and after the journal is written', async () => {
    const caller = await world.create();
    const idempotencyKey = `idempotency-${randomUUID()}`;
    const { secret, apiKey } = (await create(idempotencyKey, caller.secret)).body;
    const rotation = `rotation-${randomUUID()}`;
    const path = `/v1/api-keys/${apiKey.id}/rotate`;
    const rotated = await world.call('POST', path, { key: caller.secret, idempotencyKey: rotation, body: {} });
    const sandboxId = await world.readySandbox();
    const opening = `preview-${randomUUID()}`;
    const previews = `/v1/sandboxes/${sandboxId}/previews`;
    const opened = await world.call('POST', previews, { idempotencyKey: opening, body: { port: 8000 } });
    const { accessToken } = opened.body.preview;
    assert.equal(
      (await world.call('POST', previews, { idempotencyKey: opening, body: { port: 8000 } })).body.preview.accessToken,
      accessToken,
    );

    // Controls: the same search finds what may be at rest.
    const visible = `visible-${randomUUID()}`;
    await world.call('POST', '/v1/sandboxes', { body: { metadata: { label: visible } }, idempotencyKey: visible });
    const secrets = [caller.secret, secret, rotated.body.secret, accessToken, idempotencyKey, rotation, opening];
    assert.equal(new Set(secrets).size, 7);
    for (const moment of ['at once', 'after a restart']) {
      assert.ok((await placesOf(world, visible)).length > 0, moment);
      assert.ok((await placesOf(world, apiKey.prefix.slice(4))).length > 0, moment);
      for (const each of secrets) assert.deepEqual(await placesOf(world, each), [], moment);
      await world.restart();
    }
  });
});
