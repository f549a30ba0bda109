import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { openWebhookWorld, startReceiver, type WebhookWorld } from '../../../testing/webhooks.ts';

async function read({ registry }: WebhookWorld, name: string): Promise<number> {
  const line = (await registry.metrics()).split('\n').find((each) => each.startsWith(`${name} `));
  assert.ok(line, name);
  return Number(line.slice(name.length));
}

const outcomes = async (world: WebhookWorld) => {
  const counts: number[] = [];
  for (const outcome of ['delivered', 'refused', 'unanswered']) {
    counts.push(await read(world, `cloche_webhook_deliveries_total{outcome="${outcome}"}`));
  }
  return counts;
};
const age = (world: WebhookWorld) => read(world, 'cloche_webhook_queue_age_seconds');

describe('the metrics of webhooks', () => {
  it('the metrics of webhooks count attempts by outcome', async () => {
    await using world = await openWebhookWorld();
    await using accepting = await startReceiver();
    await using refusing = await startReceiver((response) => response.writeHead(500).end());
    await using vanishing = await startReceiver((_, __, request) => request.socket.destroy());
    assert.deepEqual(await outcomes(world), [0, 0, 0]);
    for (const { url } of [accepting, refusing, vanishing]) await world.create(url);
    await world.start();
    await world.append(3);
    const counted = async () => (await outcomes(world)).reduce((sum, count) => sum + count) === 5;
    await eventually(counted, { because: 'three were delivered, and two receivers got one each' });
    assert.deepEqual(await outcomes(world), [3, 1, 1]);
  });

  it('the metrics of webhooks have the age of the oldest event that waits, of enabled webhooks alone', async () => {
    await using world = await openWebhookWorld();
    await using receiver = await startReceiver((response) => response.writeHead(500).end());
    assert.equal(await age(world), 0);
    const { webhook } = await world.create(receiver.url);
    assert.equal(await age(world), 0);
    await world.append(1);
    world.clock.advance(7_000);
    await world.append(1);
    world.clock.advance(3_000);
    assert.equal(await age(world), 10);
    await world.service.update(world.call, webhook.id, { enabled: false });
    assert.equal(await age(world), 0);
    await world.service.update(world.call, webhook.id, { enabled: true });
    receiver.answerWith((response) => response.writeHead(204).end());
    await world.start();
    await eventually(async () => (await age(world)) === 0, { because: 'all are delivered' });
    assert.deepEqual(receiver.seqs(), [1, 2]);
  });

  it('the metrics of webhooks have the age of the oldest event that is still kept', async () => {
    await using world = await openWebhookWorld();
    await using receiver = await startReceiver();
    await world.create(receiver.url);
    await world.append(1);
    world.clock.advance(60_000);
    await world.append(1);
    await world.outbox.forget(world.clock.now());
    world.clock.advance(5_000);
    assert.equal(await age(world), 5);
  });
});
