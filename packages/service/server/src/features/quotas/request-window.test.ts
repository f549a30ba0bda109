import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { OrgId } from '@cloche/contract';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { credentialOf, ORG } from '../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../testing/silent.ts';
import { RequestCounts } from './request-counts.ts';
import { RequestRates } from './request-rates.ts';
import { WINDOW_SECONDS, Window } from './request-window.ts';

const ROUNDS = 15;
const REQUESTS = 1000;

describe('a window of requests', () => {
  it('a window of requests counts what is at most a minute old, its own and that of others', () => {
    const window = new Window();
    window.others = new Map([[90, 5]]);
    for (const second of [100, 100, 130]) window.add(second);
    assert.deepEqual([window.count(130), window.count(150), window.count(151), window.count(161)], [8, 8, 3, 1]);
    window.add(161);
    window.others = new Map([[160, 7]]);
    assert.equal(window.count(161), 9);
    window.forget(161 - WINDOW_SECONDS);
    assert.deepEqual([window.count(161), window.ownOf(100), window.ownOf(130)], [9, 0, 1]);
  });

  it('a window of requests has room again when the oldest requests that are too many are over a minute old', () => {
    const window = new Window();
    window.others = new Map([[100, 2]]);
    for (const second of [90, 90, 110]) window.add(second);
    const rooms = [5, 4, 3, 2, 1].map((limit) => window.roomAfter(110, limit) - WINDOW_SECONDS);
    assert.deepEqual(rooms, [90, 90, 100, 100, 110]);
    // Nothing counts any more, so a full minute is the longest time until there is room.
    assert.equal(window.roomAfter(500, 1), 500 + WINDOW_SECONDS);
  });
});

describe('a counted request', () => {
  it('a counted request costs hardly more when a whole minute is counted than when one second is', async () => {
    await using world = await openSandboxes();
    const { quotas, db, transactions, clock } = world;
    const counts = new RequestCounts({ db, transactions, clock, log: SILENT, processId: 'srv_1' });
    const rates = new RequestRates({ quotas, counts, clock });
    const full = credentialOf();
    const fresh = credentialOf('org_2' as OrgId);
    for (const orgId of [ORG, 'org_2' as OrgId]) {
      await world.limits.setOrganization(orgId, { requestsPerMinute: 1_000_000_000 });
    }
    for (let second = 0; second < WINDOW_SECONDS; second += 1) {
      clock.advance(1000);
      await rates.limitRequest(full);
    }
    const measure = async (credential: typeof full) => {
      const before = process.cpuUsage();
      for (let count = 0; count < REQUESTS; count += 1) await rates.limitRequest(credential);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    const measured = { full: [] as number[], fresh: [] as number[] };
    for (let round = 0; round < ROUNDS; round += 1) {
      measured.full.push(await measure(full));
      measured.fresh.push(await measure(fresh));
    }
    const ratio = Math.min(...measured.full) / Math.min(...measured.fresh);
    assert.ok(ratio < 2, `${ratio.toFixed(1)} times`);
    await counts.stop();
  });
});
