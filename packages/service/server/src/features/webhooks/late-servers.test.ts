import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { standStill } from '../../../testing/stand-still.ts';
import { DATABASE_KIND } from '../../../testing/test-database.ts';
import { openWebhookWorld, startReceiver, type WebhookWorld } from '../../../testing/webhooks.ts';
import { IdempotencyRepository } from '../../platform/idempotency/idempotency-repository.ts';

const DAY_MS = 86_400_000;

/** Resolves when a deliverer has ended its work under a claim. */
function endOf({ claims }: WebhookWorld, claim: string): Promise<void> {
  const ended = Promise.withResolvers<void>();
  const release = claims.release.bind(claims);
  claims.release = async (id, given) => {
    await release(id, given);
    if (given === claim) ended.resolve();
  };
  return ended.promise;
}

describe('a server that was paused', () => {
  it('a server that was paused sends nothing to a webhook that was disabled after its claim', async () => {
    await using world = await openWebhookWorld();
    await using receiver = await startReceiver();
    const { webhook } = await world.create(receiver.url);
    await world.append(1);
    const stall = standStill('before', world.progress, 'findClaimed');
    await world.start();
    const [, claim] = await stall.reached;
    const ended = endOf(world, claim);
    await world.service.update(world.call, webhook.id, { enabled: false });
    stall.goOn();
    await ended;
    assert.deepEqual(receiver.seqs(), []);
  });

  it('a server that was paused sends nothing to the URL that a webhook had before it was changed', async () => {
    await using world = await openWebhookWorld();
    await using old = await startReceiver();
    await using current = await startReceiver();
    const { webhook } = await world.create(old.url);
    await world.append(2);
    const stall = standStill('after', world.progress, 'delivered');
    await world.start();
    const [{ claim }] = await stall.reached;
    const ended = endOf(world, claim);
    await world.service.update(world.call, webhook.id, { url: current.url });
    stall.goOn();
    await ended;
    assert.equal(old.received.length, 1);
  });

  it('a server that was paused does not take the secret of a webhook away that another server gave meanwhile', async () => {
    await using world = await openWebhookWorld();
    await using receiver = await startReceiver();
    const { webhook } = await world.create(receiver.url);
    const stall = standStill('after', world.webhooks, 'find');
    const late = world.service.rotateSecret(world.call, webhook.id);
    await stall.reached;
    const given = await world.service.rotateSecret(world.call, webhook.id);
    stall.goOn();
    await late;
    const arrived = new Promise<void>((resolve) => {
      receiver.answerWith((response) => {
        response.writeHead(204).end();
        resolve();
      });
    });
    await world.append(1);
    await world.start();
    await arrived;
    const [message] = receiver.received;
    new Webhook(given.secret).verify(message?.body ?? '', message?.headers as Record<string, string>);
  });

  it('a server that was paused does not rotate the secret of a webhook for a request that another server has claimed', {
    skip: DATABASE_KIND === 'sqlite' && 'SQLite has one server',
  }, async () => {
    await using world = await openWebhookWorld();
    const { webhook } = await world.create('https://example.com/');
    const records = new IdempotencyRepository(world.db);
    const now = world.clock.now();
    const claim = async (server: string) => {
      const scope = {
        orgId: world.orgId,
        apiKeyId: world.call.credential.apiKeyId,
        method: 'POST',
        route: '/',
        key: 'once',
      };
      const owner = `${server}:claim`;
      const request = { ...scope, id: 'idem_1', bodyHash: 'same', owner, now, expiresAt: now + DAY_MS };
      const claimed = (await records.claim(request)) ?? assert.fail('it is claimed');
      return { recordId: claimed.id, claim: claimed.claim };
    };
    const late = await claim('srv_late');
    await claim('srv_next');
    await assert.rejects(world.service.rotateSecret({ ...world.call, idempotency: late }, webhook.id), {
      code: 'unavailable',
    });
    const found = await world.webhooks.find(world.orgId, webhook.id);
    assert.equal(found?.previousSecret, undefined);
  });
});
