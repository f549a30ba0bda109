import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { SILENT } from '../../testing/silent.ts';
import { openTestDatabase } from '../../testing/test-database.ts';
import { LEASE_MS } from '../platform/base/fence.ts';
import { randomIds } from '../platform/base/id-source.ts';
import { CutOffError } from '../platform/idempotency/held-claims.ts';
import type { IdempotencyScope } from '../platform/idempotency/idempotency-repository.ts';
import { composeIdempotency } from './compose-idempotency.ts';
import { openCoordination } from './open-coordination.ts';

const SCOPE: IdempotencyScope = { orgId: 'org_1', apiKeyId: 'key_1', method: 'POST', route: '/v1/x', key: 'k' };

it('a server that stood still has ended its requests as soon as it looks at its lease, before any timer fires', {
  skip: NEEDS_POSTGRES,
}, async ({ mock }) => {
  await using opened = new AsyncDisposableStack();
  const serverDir = mkdtempSync(join(tmpdir(), 'cloche-idempotency-'));
  opened.defer(() => rmSync(serverDir, { recursive: true }));
  const db = await openTestDatabase();
  opened.defer(() => db.destroy());
  const deps = { db, ids: randomIds, log: SILENT, serverDir, leaseMs: LEASE_MS };
  const coordination = await openCoordination(deps);
  opened.defer(() => coordination.close());
  const composed = await composeIdempotency({ ...coordination, ...deps, version: '1', replayMaxBytes: 1 });
  opened.defer(() => composed.close());
  await composed.lease.beat();
  opened.defer(() => composed.lease.stop());
  const claimed = await composed.idempotency.open(SCOPE, {});
  assert.ok(claimed.status === 'claimed');
  const work = new AbortController();
  claimed.claim.setWork(work);
  assert.equal(coordination.isFenced(), false);
  assert.equal(work.signal.aborted, false);

  const now = performance.now.bind(performance);
  mock.method(performance, 'now', () => now() + LEASE_MS);
  assert.equal(coordination.isFenced(), true);
  assert.ok(work.signal.reason instanceof CutOffError);
});
