import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { signWebhook, verifyWebhook, WebhookVerificationError } from './webhook-messages.ts';

const WEBHOOK = { id: 'whk_1', url: 'https://example.com/', events: ['*'], enabled: true };
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

describe('webhooks', () => {
  it('webhooks are created, listed, read, changed, rotated and deleted', async () => {
    await using server = await startScriptedServer(({ method, path }) =>
      path.startsWith('/v1/webhooks?')
        ? json(200, { data: [WEBHOOK], hasMore: false })
        : json(method === 'POST' ? 201 : 200, { webhook: WEBHOOK, ...(method === 'POST' && { secret: SECRET }) }),
    );
    const { webhooks } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const options = { events: ['sandbox.*', 'artifact.created'], projectId: 'prj_1', description: 'chat' } as const;
    assert.deepEqual(await webhooks.create(WEBHOOK.url, options), { webhook: WEBHOOK, secret: SECRET });
    assert.deepEqual(await webhooks.list({ projectId: 'prj_1' }), [WEBHOOK]);
    assert.deepEqual(await webhooks.get('whk_1'), WEBHOOK);
    assert.deepEqual(await webhooks.update('whk_1', { enabled: false, events: ['*'] }), WEBHOOK);
    assert.deepEqual(await webhooks.rotateSecret('whk_1'), { webhook: WEBHOOK, secret: SECRET });
    assert.deepEqual(await webhooks.delete('whk_1'), WEBHOOK);
    assert.deepEqual(
      server.requests.map(({ method, path }) => `${method} ${path}`),
      [
        'POST /v1/webhooks',
        'GET /v1/webhooks?projectId=prj_1',
        'GET /v1/webhooks/whk_1',
        'PATCH /v1/webhooks/whk_1',
        'POST /v1/webhooks/whk_1/rotate-secret',
        'DELETE /v1/webhooks/whk_1',
      ],
    );
    const [created, , , changed] = server.requests;
    assert.deepEqual(created?.body, { url: WEBHOOK.url, ...options });
    assert.deepEqual(changed?.body, { enabled: false, events: ['*'] });
  });

  it('webhooks are tested, and their deliveries listed and sent again', async () => {
    const delivery = { id: 'dlv_1', status: 'pending' };
    await using server = await startScriptedServer(({ path }) =>
      path.includes('?') ? json(200, { data: [delivery], hasMore: false }) : json(200, { delivery }),
    );
    const { webhooks } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    assert.deepEqual(await webhooks.test('whk_1'), delivery);
    const page = await webhooks.listDeliveries('whk_1', { afterSeq: 2, limit: 3 });
    assert.deepEqual(page, { data: [delivery], hasMore: false });
    assert.deepEqual(await webhooks.resend('whk_1', 'dlv_1'), delivery);
    assert.deepEqual(
      server.requests.map(({ method, path }) => `${method} ${path}`),
      [
        'POST /v1/webhooks/whk_1/test',
        'GET /v1/webhooks/whk_1/deliveries?afterSeq=2&limit=3',
        'POST /v1/webhooks/whk_1/deliveries/dlv_1/resend',
      ],
    );
  });
});

describe('a message of a webhook', () => {
  const event = { id: 'evt_1', type: 'project.created', seq: 1 };
  const body = JSON.stringify(event);

  it('a message of a webhook is verified with the fields of fetch and of node:http', () => {
    const headers = signWebhook(body, 'evt_1', SECRET);
    assert.deepEqual(verifyWebhook(body, headers, SECRET), event);
    assert.deepEqual(verifyWebhook(body, new Headers(headers), SECRET), event);
  });

  it('a message of a webhook is refused with another secret, another body, another id, and without signature', () => {
    const headers = signWebhook(body, 'evt_1', SECRET);
    const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
    for (const act of [
      () => verifyWebhook(body, headers, other),
      () => verifyWebhook(`${body} `, headers, SECRET),
      () => verifyWebhook(body, { ...headers, 'webhook-id': 'evt_2' }, SECRET),
      () => verifyWebhook(body, {}, SECRET),
      () => verifyWebhook(body, { ...headers, 'webhook-timestamp': '1700000000' }, SECRET),
    ]) {
      assert.throws(act, WebhookVerificationError);
    }
  });
});
