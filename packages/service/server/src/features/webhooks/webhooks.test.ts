import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { Webhook } from 'standardwebhooks';
import type { ApiAnswer } from '../../../testing/call-api.ts';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';
import { type Received, type Receiving, startReceiver } from '../../../testing/webhooks.ts';

let world: KeyWorld;
let receiver: Receiving;
beforeEach(async () => {
  world = await openKeyWorld(undefined, {
    CLOCHE_WEBHOOK_ALLOW_HTTP: 'on',
    CLOCHE_WEBHOOK_ALLOW_CIDRS: '127.0.0.1/32',
  });
  receiver = await startReceiver();
});
afterEach(async () => {
  await world.close();
  await receiver[Symbol.asyncDispose]();
});

const create = (body: object = {}, idempotencyKey?: string): Promise<ApiAnswer> =>
  world.call('POST', '/v1/webhooks', {
    body: { url: receiver.url, events: ['*'], ...body },
    ...(idempotencyKey && { idempotencyKey }),
  });
const verify = (secret: string, { headers, body }: Received) =>
  new Webhook(secret).verify(body, headers as Record<string, string>);
const received = async (count: number) => {
  await eventually(() => receiver.received.length >= count, { because: `${count} messages arrived` });
  return receiver.received[count - 1] as Received;
};

describe('the operations on webhooks', () => {
  it('the operations on webhooks create, list, get, change and delete one, and show its secret at the creation only', async () => {
    const { status, body } = await create({ events: ['sandbox.*'], description: 'chat' });
    assert.equal(status, 201);
    const { webhook, secret } = body;
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual(
      [webhook.url, webhook.events, webhook.description, webhook.enabled],
      [receiver.url, ['sandbox.*'], 'chat', true],
    );
    const path = `/v1/webhooks/${webhook.id}`;
    assert.deepEqual((await world.call('GET', path)).body, { webhook });
    assert.deepEqual((await world.call('GET', '/v1/webhooks')).body, { data: [webhook], hasMore: false });
    const changed = await world.call('PATCH', path, { body: { enabled: false, events: ['artifact.created'] } });
    assert.deepEqual([changed.body.webhook.enabled, changed.body.webhook.events], [false, ['artifact.created']]);
    const deleted = await world.call('DELETE', path);
    assert.ok(Date.parse(deleted.body.webhook.deletedAt) <= Date.now());
    assert.deepEqual((await world.call('DELETE', path)).body, deleted.body);
    assert.deepEqual((await world.call('GET', '/v1/webhooks')).body.data, []);
    assert.equal((await world.call('PATCH', path, { body: { enabled: true } })).status, 404);
  });

  it('the operations on webhooks refuse URLs, events and projects that cannot be', async () => {
    for (const body of [
      { url: 'https://10.0.0.1/' },
      { url: 'https://user:password@example.com/' },
      { url: 'ftp://example.com/' },
      { url: 'nowhere' },
      { events: [] },
      { events: ['sandbox.exploded'] },
      { events: ['sandbox'] },
    ]) {
      const { status, body: answer } = await create(body);
      assert.deepEqual([status, answer.error.code], [400, 'invalid_request'], JSON.stringify(body));
    }
    assert.equal((await create({ projectId: 'prj_none' })).status, 404);
    const { webhook } = (await create()).body;
    const moved = await world.call('PATCH', `/v1/webhooks/${webhook.id}`, { body: { url: 'https://[::1]/' } });
    assert.equal(moved.body.error.details.issues[0].path, 'body.url');
  });

  it('the operations on webhooks have a limit, which deleted ones do not count for', async () => {
    for (let count = 0; count < LIMITS.webhooksPerOrganization; count += 1) await create();
    const { status, body } = await create();
    assert.deepEqual(
      [status, body.error.details],
      [429, { quota: 'webhooks', limit: LIMITS.webhooksPerOrganization, used: LIMITS.webhooksPerOrganization }],
    );
    const [one] = (await world.call('GET', '/v1/webhooks')).body.data;
    await world.call('DELETE', `/v1/webhooks/${one.id}`);
    assert.equal((await create()).status, 201);
  });
});

describe('a webhook of a whole server', () => {
  it('a webhook of a whole server receives the events of a sandbox as they are listed, before and after a restart', async () => {
    const { secret } = (await create({ events: ['sandbox.*'] })).body;
    await world.readySandbox();
    await received(2);
    await world.restart();
    const sandboxes = (await world.call('GET', '/v1/sandboxes')).body.data;
    await world.call('DELETE', `/v1/sandboxes/${sandboxes[0].id}`);
    // The server may be stopped between an answer and its record; then the event arrives again, with the same id.
    const distinct = () => [...new Map(receiver.received.map((message) => [message.event.id, message])).values()];
    await eventually(() => distinct().length === 3, { because: 'three events arrived' });
    const listed = (await world.call('GET', '/v1/events?types=sandbox.*')).body.data;
    assert.deepEqual(
      distinct().map((message) => verify(secret, message)),
      listed,
    );
  });

  it('a webhook of a whole server is tested with a message that passes the events, and shows what its receiver answered', async () => {
    const { webhook, secret } = (await create()).body;
    await world.call('PATCH', `/v1/webhooks/${webhook.id}`, { body: { enabled: false } });
    const test = () => world.call('POST', `/v1/webhooks/${webhook.id}/test`);
    const { status, body } = await test();
    assert.deepEqual([status, body.delivery.status, body.delivery.eventType], [200, 'delivered', 'webhook.test']);
    const message = verify(secret, await received(1)) as {
      type: string;
      id: string;
      data: { webhook: { id: string } };
    };
    assert.deepEqual(
      [message.type, message.id, message.data.webhook.id],
      ['webhook.test', body.delivery.eventId, webhook.id],
    );
    receiver.answerWith((response) => response.writeHead(418).end('teapot'));
    const refused = (await test()).body.delivery;
    assert.deepEqual([refused.status, refused.response], ['failed', { status: 418, body: 'teapot' }]);
    const resent = await world.call('POST', `/v1/webhooks/${webhook.id}/deliveries/${refused.id}/resend`);
    assert.equal(resent.status, 409);
  });

  it('a webhook of a whole server is tested within the slots of its organization, which deliveries use too', async () => {
    const waiting: ServerResponse[] = [];
    receiver.answerWith((response) => void waiting.push(response));
    const { webhook } = (await create()).body;
    const path = `/v1/webhooks/${webhook.id}/test`;
    const tests = Array.from({ length: 40 }, () => world.call('POST', path));
    const refused = (answers: ApiAnswer[]) => answers.filter(({ status }) => status === 429);
    const answered: ApiAnswer[] = [];
    for (const each of tests) void each.then((answer) => answered.push(answer));
    const areUnderWay = () => refused(answered).length === 24 && waiting.length === 16;
    await eventually(areUnderWay, { because: '16 of 40 are under way' });
    assert.equal(answered[0]?.body.error.code, 'rate_limited');
    for (const response of waiting) response.writeHead(204).end();
    assert.equal((await Promise.all(tests)).filter(({ status }) => status === 200).length, 16);
    receiver.answerWith((response) => response.writeHead(204).end());
    assert.equal((await world.call('POST', path)).body.delivery.status, 'delivered');
  });

  it('a webhook of a whole server signs with the old and the new secret after a rotation', async () => {
    const { webhook, secret } = (await create()).body;
    const rotated = (await world.call('POST', `/v1/webhooks/${webhook.id}/rotate-secret`)).body;
    assert.notEqual(rotated.secret, secret);
    await world.call('POST', `/v1/webhooks/${webhook.id}/test`);
    const message = await received(1);
    assert.deepEqual(verify(secret, message), verify(rotated.secret, message));
    const expires = Date.parse(rotated.webhook.previousSecretExpiresAt) - Date.now();
    assert.ok(expires > LIMITS.webhookSecretGraceMs - 60_000 && expires <= LIMITS.webhookSecretGraceMs);
  });
});

describe('the secret of a webhook', () => {
  it('the secret of a webhook is returned once more to the same key with the same Idempotency-Key', async () => {
    const first = await create({}, 'once');
    assert.deepEqual((await create({}, 'once')).body, first.body);
    assert.equal((await world.call('GET', '/v1/webhooks')).body.data.length, 1);
  });

  it('the secret of a webhook is in no table as it is, neither in a file nor in a line of the log', async () => {
    const { webhook, secret } = (await create({}, 'once')).body;
    const rotated = (await world.call('POST', `/v1/webhooks/${webhook.id}/rotate-secret`)).body.secret;
    await world.call('POST', `/v1/webhooks/${webhook.id}/test`);
    await world.restart();
    const names = readdirSync(world.folder, { recursive: true, encoding: 'utf8' });
    const files = names.map((name) => join(world.folder, name)).filter((path) => statSync(path).isFile());
    const places = (text: string) => [
      ...files.filter((path) => readFileSync(path).includes(text)),
      ...(world.lines.join().includes(text) ? ['log'] : []),
    ];
    for (const each of [secret, rotated]) assert.deepEqual(places(each.slice('whsec_'.length)), []);
    // Control: the same search finds what is stored.
    assert.ok(places(webhook.id).length > 0);
  });
});
