import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { OrgId, ProjectId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { Webhook } from 'standardwebhooks';
import {
  CLAIM_MS,
  openWebhookWorld,
  type Receiving,
  startReceiver,
  type WebhookWorld,
} from '../../../testing/webhooks.ts';
import { toWebhook } from './webhook.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

let world: WebhookWorld;
let receiver: Receiving;
beforeEach(async () => {
  world = await openWebhookWorld();
  receiver = await startReceiver();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, index) => first + index);
const has = (count: number, from = receiver) =>
  eventually(() => from.received.length >= count, { because: `${count} messages arrived` });
/** Resolves when the webhook waits for its next attempt after `attempts` failures. */
const failed = (attempts: number, id: string) =>
  eventually(async () => (await record(id)).attempts === attempts && (await isIdle(id)), {
    because: `${attempts} attempts failed`,
  });

const record = async (id: string) => {
  const found = await world.webhooks.find(world.orgId, id);
  assert.ok(found);
  return found;
};
const isIdle = async (id: string) =>
  (await world.db.selectFrom('webhooks').select('claimed_by').where('id', '=', id).executeTakeFirst())?.claimed_by ===
  null;
const listed = async (id: string) =>
  (await world.service.listDeliveries(world.call, id, { afterSeq: 0, limit: 100 })).data;

describe('a webhook', () => {
  it('a webhook receives each event after its creation once, in order, signed, with the event as GET has it', async () => {
    await world.append(3);
    const { secret } = await world.create(receiver.url);
    await world.start();
    await world.append(5);
    await has(5);
    assert.deepEqual(receiver.seqs(), upTo(8, 4));
    for (const { headers, body, event } of receiver.received) {
      assert.deepEqual(new Webhook(secret).verify(body, headers as Record<string, string>), event);
      assert.deepEqual([headers['webhook-id'], headers['content-type']], [event.id, 'application/json']);
    }
    assert.throws(() =>
      new Webhook(`whsec_${Buffer.alloc(32).toString('base64')}`).verify(
        receiver.received[0]?.body ?? '',
        receiver.received[0]?.headers as Record<string, string>,
      ),
    );
  });

  it('says which events were deleted before it could send them, and goes on with the next ones', async () => {
    const { webhook } = await world.create(receiver.url);
    const shown = async () => toWebhook(await record(webhook.id), 0).lostEvents;
    await world.append(3);
    await world.db.deleteFrom('events').execute();
    await world.append(2);
    await world.start();
    await has(2);
    assert.deepEqual([receiver.seqs(), await shown()], [[4, 5], { firstSeq: 1, lastSeq: 3 }]);
  });

  it('a webhook receives only events of its types, its project and its organization', async () => {
    await world.create(receiver.url, ['preview.deleted']);
    await using ofProject = await startReceiver();
    await world.create(ofProject.url, ['preview.*', 'sandbox.ready'], world.projectId);
    await world.start();
    await world.append(2);
    await world.append(2, { orgId: 'org_other' as OrgId, type: 'preview.deleted' });
    await world.append(1, { projectId: 'prj_other' as ProjectId });
    await world.append(1, { type: 'preview.deleted' });
    await has(1);
    await has(3, ofProject);
    assert.deepEqual([receiver.seqs(), ofProject.seqs()], [[4], [1, 2, 4]]);
  });

  it('a webhook is not held up by another one that fails or hangs', async () => {
    await using hanging = await startReceiver(() => undefined);
    await using failing = await startReceiver((response) => response.writeHead(500).end());
    for (const { url } of [hanging, failing, receiver]) await world.create(url);
    await world.start();
    await world.append(20);
    await has(20);
    assert.deepEqual([receiver.seqs(), hanging.seqs(), failing.seqs()], [upTo(20), [1], [1]]);
  });

  it('a webhook gets 1,000 events that happened while its receiver was down for a minute, all of them in order', async () => {
    receiver.answerWith((response) => response.writeHead(503).end());
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(1);
    await failed(1, webhook.id);
    await world.append(999);
    for (const [attempts, ms] of [
      [2, 5_000],
      [3, 30_000],
    ] as const) {
      world.advance(ms - 1);
      assert.equal((await record(webhook.id)).attempts, attempts - 1);
      world.advance(1);
      await failed(attempts, webhook.id);
    }
    assert.ok(receiver.received.length < 10);
    receiver.received.length = 0;
    receiver.answerWith((response) => response.writeHead(204).end());
    world.advance(MINUTE_MS);
    await eventually(() => receiver.received.length >= 1000, { within: 60_000, because: 'all arrived' });
    assert.deepEqual(receiver.seqs(), upTo(1000));
  });
});

describe('a delivery that fails', () => {
  it('a delivery that fails is shown with the answer and the time of its next attempt, and once delivered as such', async () => {
    receiver.answerWith((response) => response.writeHead(500).end('out of order'));
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(1);
    await failed(1, webhook.id);
    const [pending] = await listed(webhook.id);
    const nextAttemptAt = new Date(world.clock.now() + 5_000).toISOString();
    assert.deepEqual([pending?.status, pending?.attempts, pending?.nextAttemptAt], ['pending', 1, nextAttemptAt]);
    assert.deepEqual(pending?.response, { status: 500, body: 'out of order' });
    receiver.answerWith((response) => response.writeHead(200).end('thanks'));
    world.advance(5_000);
    await has(2);
    await eventually(async () => (await listed(webhook.id))[0]?.status === 'delivered', { because: 'recorded' });
    const [delivered] = await listed(webhook.id);
    assert.deepEqual([delivered?.id, delivered?.attempts], [pending?.id, 2]);
    assert.equal((await record(webhook.id)).failingSince, undefined);
  });

  it('a delivery that fails is quarantined while later ones succeed, and retried by itself', async () => {
    const refused = (seq: number) => seq === 2;
    receiver.answerWith((response, { event }) => response.writeHead(refused(event.seq) ? 400 : 204).end());
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(5);
    await failed(1, webhook.id);
    world.advance(5_000);
    await failed(2, webhook.id);
    assert.deepEqual(receiver.seqs(), [1, 2, 2]);
    world.advance(30_000);
    await has(7);
    assert.deepEqual(receiver.seqs(), [1, 2, 2, 2, 3, 4, 5]);
    await failed(0, webhook.id);
    receiver.answerWith((response) => response.writeHead(204).end());
    world.advance(MINUTE_MS);
    await has(8);
    assert.equal(receiver.seqs().at(-1), 2);
    await eventually(async () => (await listed(webhook.id)).every(({ status }) => status === 'delivered'), {
      because: 'all are delivered',
    });
  });

  it('disables its webhook at once when the receiver answers 410, and says so in an event', async () => {
    receiver.answerWith((response) => response.writeHead(410).end());
    const { webhook } = await world.create(receiver.url, ['preview.*']);
    await using other = await startReceiver();
    await world.create(other.url, ['webhook.disabled']);
    await world.start();
    await world.append(2);
    await has(1, other);
    const [{ event }] = other.received as [Receiving['received'][number]];
    assert.equal(event.type, 'webhook.disabled');
    assert.deepEqual(
      Object.values(event.data).map(({ id, enabled, disabledReason, url }) => [id, enabled, disabledReason, url]),
      // The path and the query may hold a token.
      [[webhook.id, false, 'gone', new URL(receiver.url).origin]],
    );
    assert.equal(receiver.received.length, 1);
    receiver.answerWith((response) => response.writeHead(204).end());
    await world.service.update(world.call, webhook.id, { enabled: true });
    await has(3);
    assert.deepEqual(receiver.seqs(), [1, 1, 2]);
  });

  it('disables its webhook after five days of failures', async () => {
    receiver.answerWith((response) => response.writeHead(500).end());
    const { webhook } = await world.create(receiver.url, ['preview.*']);
    await world.start();
    await world.append(1);
    const began = world.clock.now();
    for (let failures = 1; ; failures += 1) {
      await eventually(
        async () => !(await record(webhook.id)).enabled || (await record(webhook.id)).attempts === failures,
        {
          because: `attempt ${failures} failed`,
        },
      );
      const { enabled, nextAttemptAt } = await record(webhook.id);
      if (!enabled) break;
      await eventually(() => isIdle(webhook.id), { because: 'the turn is over' });
      world.advance(nextAttemptAt - world.clock.now());
    }
    assert.equal(world.clock.now() - began, 5 * DAY_MS);
    assert.equal((await record(webhook.id)).disabledReason, 'failing');
  });

  it('a delivery that fails is sent again at once when a client asks for it, also if it was delivered', async () => {
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(2);
    await has(2);
    await eventually(async () => (await listed(webhook.id)).length === 2, { because: 'both are recorded' });
    const [first] = await listed(webhook.id);
    assert.ok(first);
    const again = await world.service.resend(world.call, webhook.id, first.id);
    assert.equal(again.status, 'pending');
    await has(3);
    assert.equal(receiver.received[2]?.headers['webhook-id'], first.eventId);
    await assert.rejects(world.service.resend(world.call, webhook.id, 'dlv_none'), { code: 'not_found' });
  });
});

describe('several servers', () => {
  it('several servers send each event once, in order', async () => {
    await world.create(receiver.url);
    await Promise.all(['srv_1', 'srv_2', 'srv_3'].map((id) => world.start(id)));
    await world.append(200);
    await has(200);
    assert.deepEqual(receiver.seqs(), upTo(200));
  });

  it('several servers take over what one of them was sending when it was killed, once its claim has expired', async () => {
    const { webhook } = await world.create(receiver.url);
    await world.append(3);
    assert.ok(await world.claims.acquire(webhook.id, 'srv_killed:1', world.clock.now()));
    await world.start('srv_2');
    world.advance(CLAIM_MS - 1);
    assert.equal(await world.claims.acquire(webhook.id, 'srv_2:x', world.clock.now()), false);
    assert.deepEqual(receiver.seqs(), []);
    world.advance(1);
    await has(3);
    assert.deepEqual(receiver.seqs(), upTo(3));
  });

  it('continue at once what the same server was sending before it was killed', async () => {
    const { webhook } = await world.create(receiver.url);
    await world.append(3);
    await world.claims.acquire(webhook.id, 'srv_1:before', world.clock.now());
    await world.start();
    await has(3);
  });

  it('try again soon after an error of the database, not only when the claim has expired', async ({ mock }) => {
    const { webhook } = await world.create(receiver.url);
    const find = mock.method(world.progress, 'findClaimed');
    find.mock.mockImplementationOnce(() => Promise.reject(new Error('the connection broke')));
    await world.append(3);
    await world.start();
    await has(3);
    assert.ok(find.mock.callCount() > 1);
    await eventually(() => isIdle(webhook.id), { because: 'the claim is given back' });
  });

  it('record nothing for a claim that has gone to another one', async () => {
    const { webhook } = await world.create(receiver.url);
    await world.append(1);
    const claimed = { webhook, claim: 'srv_1:old' };
    await world.claims.acquire(webhook.id, claimed.claim, world.clock.now());
    world.clock.advance(CLAIM_MS);
    assert.ok(await world.claims.acquire(webhook.id, 'srv_2:new', world.clock.now()));
    const attempted = {
      sent: { id: 'evt_x' as never, type: 'preview.created', seq: 1 },
      result: { kind: 'answered' as const, status: 204, body: '' },
    };
    assert.equal(await world.progress.delivered(claimed, attempted), undefined);
    assert.equal((await record(webhook.id)).cursorSeq, 0);
    assert.deepEqual(await listed(webhook.id), []);
  });
});

describe('the deliveries of a webhook', () => {
  it('the deliveries of a webhook keep the answers of the latest ones only', async () => {
    receiver.answerWith((response, { event }) => response.writeHead(200).end(`answer ${event.seq}`));
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(30);
    await eventually(async () => (await listed(webhook.id)).length === 30, { because: 'all are recorded' });
    const answers = (await listed(webhook.id)).map(({ response }) => response?.body);
    assert.deepEqual(answers, [...upTo(10).map(() => undefined), ...upTo(30, 11).map((seq) => `answer ${seq}`)]);
  });

  it('the deliveries of a webhook are read in pages', async () => {
    const { webhook } = await world.create(receiver.url);
    await world.start();
    await world.append(5);
    await eventually(async () => (await listed(webhook.id)).length === 5, { because: 'all are recorded' });
    const page = (afterSeq: number) => world.service.listDeliveries(world.call, webhook.id, { afterSeq, limit: 3 });
    const first = await page(0);
    assert.deepEqual([first.data.map(({ eventSeq }) => eventSeq), first.hasMore], [[1, 2, 3], true]);
    const second = await page(first.data.at(-1)?.seq ?? 0);
    assert.deepEqual([second.data.map(({ eventSeq }) => eventSeq), second.hasMore], [[4, 5], false]);
  });
});
