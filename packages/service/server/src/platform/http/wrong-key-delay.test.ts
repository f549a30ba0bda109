import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService } from '../../../testing/test-service.ts';
import { route } from './route.ts';
import { WrongKeyDelay } from './wrong-key-delay.ts';

let clock: FakeClock;
let waited: number[];
let delays: WrongKeyDelay;
beforeEach(() => {
  clock = new FakeClock();
  waited = [];
  delays = new WrongKeyDelay({
    clock,
    wait: async (ms) => {
      waited.push(ms);
    },
  });
});

async function send(count: number, address = '192.0.2.1'): Promise<void> {
  for (let sent = 0; sent < count; sent++) await delays.wrongKey(address);
}

describe('wrong keys from one address', () => {
  it('wrong keys from one address are slowed after the first twenty, each more than the one before, and refused beyond that', async () => {
    await send(20);
    assert.deepEqual(waited, []);
    await send(5);
    assert.deepEqual(waited, [1000, 2000, 3000, 4000, 5000]);
    await assert.rejects(send(1), { code: 'rate_limited', retryAfterSeconds: 5 });
  });

  it('wrong keys from one address do not slow another address, and are forgotten with time', async () => {
    await send(25);
    await send(20, '192.0.2.2');
    assert.equal(waited.length, 5);
    clock.advance(25_000);
    await send(20);
    assert.equal(waited.length, 5);
  });

  it('wrong keys from one address count for the network of an IPv6 address, and for the IPv4 address that one stands for', async () => {
    await send(10, '2001:db8::1');
    await send(10, '2001:db8:0:0:1:2:3:4');
    await send(1, '2001:db8:0:0:ffff::');
    assert.deepEqual(waited, [1000]);
    await send(20, '2001:db8:0:1::1');
    await send(20, '::ffff:192.0.2.9');
    assert.deepEqual(waited, [1000]);
    await send(1, '192.0.2.9');
    assert.deepEqual(waited, [1000, 1000]);
  });

  it('wrong keys from one address take a limited memory, however many addresses send them', async () => {
    for (let index = 0; index < 10_100; index++) await delays.wrongKey(`10.0.${index >> 8}.${index & 255}`);
    assert.equal(delays.size, 10_000);
  });

  it('wrong keys from one address do not delay a valid key from the same address', async () => {
    const service = await startTestService([
      route(operations.listSandboxes, async () => ({ data: [], hasMore: false })),
    ]);
    try {
      const wrong = () => service.call('GET', '/v1/sandboxes', { key: 'a wrong key' });
      const valid = () => service.call('GET', '/v1/sandboxes');
      let unanswered = 25;
      const send = async () => {
        const { status } = await wrong();
        unanswered -= 1;
        return status;
      };
      const answers = Promise.allSettled(Array.from({ length: unanswered }, send));
      await eventually(() => unanswered <= 5, { because: 'the answers to the first twenty arrived' });
      assert.equal((await valid()).status, 200);
      // The last one waits for five seconds.
      assert.ok(unanswered > 0, 'a wrong key was still waiting');
      for (const answer of await answers) assert.deepEqual(answer, { status: 'fulfilled', value: 401 });
    } finally {
      await service.close();
    }
  });
});
