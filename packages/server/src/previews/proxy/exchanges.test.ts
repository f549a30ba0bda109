import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '@cloche/testkit';
import { Exchanges } from './exchanges.ts';

const HOUR_MS = 3_600_000;

describe('an exchange through a preview', () => {
  it('is activity of its sandbox when it begins and while bytes go through, not while it is silent', () => {
    const clock = new FakeClock();
    const told: number[] = [];
    const preview = { id: 'prv_1', expiresAt: clock.now() + HOUR_MS } as const;
    using exchange = new Exchanges(clock).begin(preview, () => told.push(clock.now()));
    const startedAt = clock.now();
    clock.advance(999);
    exchange.touch();
    clock.advance(10_000);
    exchange.touch();
    assert.deepEqual(told, [startedAt, startedAt + 10_999]);
  });

  it('ends with its preview, however long that is', async () => {
    const clock = new FakeClock();
    const exchanges = new Exchanges(clock);
    using long = exchanges.begin({ id: 'prv_1', expiresAt: clock.now() + 1e12 }, () => undefined);
    using over = exchanges.begin({ id: 'prv_2', expiresAt: clock.now() - 1 }, () => undefined);
    await new Promise((resolve) => over.signal.addEventListener('abort', resolve));
    assert.equal(long.signal.aborted, false);
    exchanges.endAll();
    assert.equal(long.signal.aborted, true);
  });
});
