import assert from 'node:assert/strict';
import { it } from 'node:test';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import { Quotas } from './quotas.ts';

it('refusals of one quota cost one transaction a minute, however many they are', async () => {
  await using world = await openSandboxes();
  let count = 0;
  const run: Transactions['run'] = (act, joined) => {
    count += 1;
    return world.transactions.run(act, joined);
  };
  const quotas = new Quotas({ ...world, transactions: { run } as Transactions, defaults: {} });
  const use = { quota: 'requestsPerMinute', limit: 1, used: 1, scope: 'organization' } as never;
  for (let refusal = 0; refusal < 100; refusal += 1) await quotas.announce({ orgId: ORG }, use);
  assert.equal(count, 1);
  world.clock.advance(60_000);
  await quotas.announce({ orgId: ORG }, use);
  assert.equal(count, 2);
});
