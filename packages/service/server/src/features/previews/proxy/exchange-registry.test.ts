import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '@cloche/testkit';
import { ExchangeRegistry } from './exchange-registry.ts';

const HOUR_MS = 3_600_000;

describe('an exchange through a preview', () => {
  it('an exchange through a preview is activity of its sandbox when it begins and while bytes go through, not while it is silent', () => {
    const clock = new FakeClock();
    const told: number[] = [];
    const preview = { id: 'prv_1', orgId: 'org_1', apiKeyId: 'key_1', expiresAt: clock.now() + HOUR_MS } as const;
    using exchange = new ExchangeRegistry(clock).begin(preview, () => told.push(clock.now()));
    const startedAt = clock.now();
    clock.advance(999);
    exchange.touch();
    clock.advance(10_000);
    exchange.touch();
    assert.deepEqual(told, [startedAt, startedAt + 10_999]);
  });

  it('an exchange through a preview ends with its preview, however long that is', async () => {
    const clock = new FakeClock();
    const exchanges = new ExchangeRegistry(clock);
    using long = exchanges.begin(
      { id: 'prv_1', orgId: 'org_1', apiKeyId: 'key_1', expiresAt: clock.now() + 1e12 },
      () => undefined,
    );
    using over = exchanges.begin(
      { id: 'prv_2', orgId: 'org_1', apiKeyId: 'key_1', expiresAt: clock.now() - 1 },
      () => undefined,
    );
    await new Promise((resolve) => over.signal.addEventListener('abort', resolve));
    assert.equal(long.signal.aborted, false);
    exchanges.endAll();
    assert.equal(long.signal.aborted, true);
  });

  it('an exchange through a preview counts for its organization and for all, until it is over', () => {
    const clock = new FakeClock();
    const exchanges = new ExchangeRegistry(clock, { perOrganization: 2, total: 3 });
    const begin = (orgId: 'org_1' | 'org_2' | 'org_3', id: 'prv_1' | 'prv_2') =>
      exchanges.begin({ id, orgId, apiKeyId: 'key_1', expiresAt: clock.now() + HOUR_MS }, () => undefined);
    const busy = { code: 'preview_busy' };
    const first = begin('org_1', 'prv_1');
    const all = [first, begin('org_1', 'prv_2')];
    assert.throws(() => begin('org_1', 'prv_1'), busy);
    all.push(begin('org_2', 'prv_1'));
    assert.throws(() => begin('org_3', 'prv_1'), busy);
    first[Symbol.dispose]();
    all.push(begin('org_3', 'prv_1'));
    assert.equal(exchanges.size, 3);
    for (const exchange of all) exchange[Symbol.dispose]();
    assert.equal(exchanges.size, 0);
  });
});
