import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ResourceEvent } from '@cloche/sdk';
import { verifyWebhook } from '@cloche/sdk/webhooks';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { type OwnService, TAKEN_OVER_MS, testService } from '../support/service.ts';

/** Time in which the receiver answers, so that a kill usually interrupts a delivery. */
const ANSWER_MS = 10;

let service: OwnService;
before(async () => {
  // No sandbox is used.
  const env = { CLOCHE_WEBHOOK_ALLOW_HTTP: 'on', CLOCHE_WEBHOOK_ALLOW_CIDRS: '127.0.0.1/32', CLOCHE_POOL_SIZE: '0' };
  service = await testService(env);
});
after(() => service?.close());

interface Message {
  readonly body: string;
  readonly headers: Record<string, string | string[] | undefined>;
}

async function startReceiver() {
  const messages: Message[] = [];
  const server = createServer(async (request, response) => {
    messages.push({ body: String(await buffer(request)), headers: request.headers });
    await delay(ANSWER_MS);
    response.writeHead(204).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    messages,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Makes two events. */
async function makeEvents(): Promise<void> {
  const created = await service.api.post('/v1/api-keys', { name: 'for its events', scopes: ['code:run'] });
  await service.api.delete(`/v1/api-keys/${created.body.apiKey.id}`);
}

async function listEvents(afterSeq: number): Promise<ResourceEvent[]> {
  const { data, hasMore, nextSeq } = (await service.api.get(`/v1/events?afterSeq=${afterSeq}&limit=500`)).body;
  return hasMore ? [...data, ...(await listEvents(nextSeq))] : data;
}

const kept = sameWithEachRuntime('the server sends what is in its database');

describe('a webhook', () => {
  it(
    'a webhook receives each event at least once, in order, although the server is killed with -9 meanwhile',
    kept,
    async () => {
      await using receiver = await startReceiver();
      const { nextSeq: before } = (await service.api.get(`/v1/events?afterSeq=${Number.MAX_SAFE_INTEGER}`)).body;
      const { secret } = (await service.api.post('/v1/webhooks', { url: receiver.url, events: ['*'] })).body;
      const { messages } = receiver;
      // Several servers start with new ids, so the webhook stays claimed by the dead one for a while.
      const rounds = service.servers > 1 ? [60] : [20, 60, 100];
      let kills = 0;
      for (const enough of rounds) {
        for (let count = 0; count < 40; count += 1) await makeEvents();
        await eventually(() => messages.length >= enough, { within: 2 * TAKEN_OVER_MS });
        await service.kill('server');
        kills += 1;
        await service.restart('server');
      }
      const all = await listEvents(before);
      assert.ok(all.length >= 80 * rounds.length);
      const last = all.at(-1)?.id;
      await eventually(() => messages.at(-1)?.headers['webhook-id'] === last, { within: 2 * TAKEN_OVER_MS });

      for (const { body, headers } of messages) verifyWebhook(body, headers, secret);
      const received: ResourceEvent[] = messages.map(({ body }) => JSON.parse(body));
      const repeated = received.filter(({ seq }, index) => received[index - 1]?.seq === seq);
      assert.ok(repeated.length <= kills, `${repeated.length} events arrived twice`);
      const once = received.filter((event) => !repeated.includes(event));
      assert.deepEqual(once, all);
      for (const { body, headers } of messages) assert.equal(headers['webhook-id'], JSON.parse(body).id);
      const isEmpty = async () =>
        /^cloche_webhook_queue_age_seconds 0$/m.test((await service.api.get('/metrics')).body);
      await eventually(isEmpty);
    },
  );
});
