/** Tests that each implementation of `Coordination` passes. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import type { Coordination, RecordStore } from '../src/compose/coordination.ts';
import { openCoordination } from '../src/compose/open-coordination.ts';
import { Changes } from '../src/platform/base/changes.ts';
import { LEASE_MS } from '../src/platform/base/fence.ts';
import { randomIds } from '../src/platform/base/id-source.ts';
import type { Database } from '../src/platform/db/database.ts';
import { sharedChanges } from '../src/platform/db/notifications.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import { type ClaimRequest, IdempotencyRepository } from '../src/platform/idempotency/idempotency-repository.ts';
import { ReplayQuota } from '../src/platform/idempotency/replay-quota.ts';
import { coordinationOf } from './coordination.ts';
import { repositoryOf } from './sandbox-repository.ts';
import { openSandboxes } from './sandboxes.ts';
import { ORG } from './seeded-organizations.ts';
import { SILENT } from './silent.ts';
import { openTestDatabase } from './test-database.ts';

const ID: SandboxId = 'sbx_1';
const OTHER: SandboxId = 'sbx_2';
const SHA256 = 'a'.repeat(64);

interface Begun {
  readonly db: Database;
  readonly folder: string;
  readonly coordination: Coordination;
}

/** Calls `act` with a server of a new database, and closes both. */
export async function withServer(act: (begun: Begun) => Promise<void>): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'cloche-coordination-'));
  opened.defer(() => rmSync(folder, { recursive: true }));
  const db = await openTestDatabase();
  opened.defer(() => db.destroy());
  const coordination = await serverBeside({ db, folder });
  opened.defer(() => coordination.close());
  await act({ db, folder, coordination });
}

/** Starts a server of the database. The caller closes it. */
export function serverBeside({ db, folder }: Pick<Begun, 'db' | 'folder'>, name = 'server'): Promise<Coordination> {
  return openCoordination({ db, ids: randomIds, log: SILENT, serverDir: join(folder, name), leaseMs: LEASE_MS });
}

/** Makes the server count as living. The caller stops the result. */
export async function beat(db: Database, { openLease }: Coordination) {
  const files = { removeExpired: async () => undefined };
  const lease = openLease({ records: new IdempotencyRepository(db), files, version: '1' });
  await lease.beat();
  return lease;
}

export function openRecords({ db, folder, coordination }: Begun): Promise<RecordStore> {
  return coordination.openRecords({ repository: new IdempotencyRepository(db), journalFile: join(folder, 'journal') });
}

export function claimOf({ servers, clock }: Coordination, id: string): ClaimRequest {
  const scope = { orgId: ORG, apiKeyId: 'key_1', method: 'POST', route: '/v1/x', key: 'k' } as const;
  const now = clock.now();
  return { id, ...scope, bodyHash: 'hash', owner: `${servers.own}:${id}`, now, expiresAt: now + 3_600_000 };
}

/** @param skip why the database of this run has no such coordination, or false */
export function describeCoordination(name: string, skip: string | false): void {
  describe(`the coordination of ${name}`, { skip }, () => {
    let begun: Begun;
    let ended: PromiseWithResolvers<void>;
    let done: Promise<void>;
    beforeEach(async () => {
      ended = Promise.withResolvers<void>();
      const begins = Promise.withResolvers<Begun>();
      done = withServer((made) => {
        begins.resolve(made);
        return ended.promise;
      });
      begun = await Promise.race([begins.promise, done.then(() => assert.fail())]);
    });
    afterEach(async () => {
      ended.resolve();
      await done;
    });

    it(`the coordination of ${name} has an id of its server, which is not among those of other servers`, async () => {
      const { db, coordination } = begun;
      assert.match(coordination.servers.own, /^srv_./);
      const lease = await beat(db, coordination);
      assert.deepEqual(await coordination.servers.others(), new Set());
      await lease.release();
    });

    it(`the coordination of ${name} has a clock that agrees with the host, which the database shares here`, () => {
      const before = Date.now();
      const now = begun.coordination.clock.now();
      // Bounds of a comparison with the database; both clocks are those of this machine.
      assert.ok(now >= before - 1_000 && now <= Date.now() + 1_000, `${now} is not ${before}`);
    });

    it(`the coordination of ${name} notifies those that wait for a changed record, and no others`, async () => {
      const changes = sharedChanges<SandboxId>('sandbox', begun.coordination.notifications, undefined);
      using watch = changes.watch(ID);
      using other = changes.watch(OTHER);
      const [woken, asleep] = [watch.next(), other.next().then(() => 'woken')];
      changes.notify(ID);
      await woken;
      const next = new Promise((resolve) => setImmediate(resolve, 'asleep'));
      assert.equal(await Promise.race([asleep, next]), 'asleep');
    });

    it(`the coordination of ${name} says that work is its own, before and after it has a lease`, async () => {
      const { db, coordination } = begun;
      const isOwn = () => [coordination.isFenced(), coordination.stillOwns(coordination.clock.now(), 60_000)];
      assert.deepEqual(isOwn(), [false, true]);
      const lease = await beat(db, coordination);
      assert.deepEqual(isOwn(), [false, true]);
      await lease.release();
    });

    it(`the coordination of ${name} lets requests decide about one content one after another, also after a failure`, async () => {
      const locks = begun.coordination.contentLocks(new Transactions(begun.db));
      const [entered, leaves] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const order: string[] = [];
      const first = locks.run(SHA256, async () => {
        entered.resolve();
        await leaves.promise;
        order.push('first');
        throw new Error('refused');
      });
      await entered.promise;
      const second = locks.run(SHA256, async () => order.push('second'));
      leaves.resolve();
      await assert.rejects(first, /refused/);
      await second;
      assert.deepEqual(order, ['first', 'second']);
    });

    it(`the coordination of ${name} keeps a claim: a second one fails, also in a record store that is opened later`, async () => {
      const { coordination } = begun;
      const store = await openRecords(begun);
      const claim = claimOf(coordination, 'idem_1');
      assert.deepEqual(await store.records.claim(claim), { id: 'idem_1', claim: 1 });
      assert.equal(await store.records.complete('idem_1', claim.owner, { status: 200, body: 'answer' }), true);
      await store.close();
      const later = await openRecords(begun);
      assert.equal(await later.records.claim(claimOf(coordination, 'idem_2')), undefined);
      assert.deepEqual((await later.records.find(claim))?.response, { status: 200, body: 'answer' });
      await later.close();
    });

    it(`the coordination of ${name} counts the stored responses of earlier processes`, async () => {
      const { coordination } = begun;
      const earlier = await openRecords(begun);
      const claim = claimOf(coordination, 'idem_1');
      await earlier.records.claim(claim);
      await earlier.records.complete('idem_1', claim.owner, { status: 200, body: 'answer' });
      await earlier.close();
      const store = await openRecords(begun);
      const quota = new ReplayQuota(1);
      await store.learnQuota(quota, () => false);
      await eventually(() => quota.usedBytes(ORG, coordination.clock.now()) > 0, { because: 'they were counted' });
      await store.close();
    });

    it(`the coordination of ${name} lets a server use its cache of keys, and change keys`, async () => {
      const { coordination } = begun;
      const use = coordination.keyCaches(() => undefined);
      await use.look();
      assert.ok(use.usableUntil > coordination.clock.now());
      await use.outdate(AbortSignal.timeout(30_000));
      await use.stop();
    });

    it(`the coordination of ${name} knows what runs in a sandbox, and when it was used last`, async () => {
      await using world = await openSandboxes();
      const sandboxes = repositoryOf(world);
      const record = (await sandboxes.find(await world.createReady())) ?? assert.fail();
      const { clock, sandboxActivity } = coordinationOf({ ...world, servers: world.liveServers });
      const { executions, activity, ...rest } = sandboxActivity(new Changes());
      await rest.start();
      const lastUse = async () => (await rest.lastUses(sandboxes).read([record]))(record);
      const begunAt = clock.now();
      const execution = executions.begin(record.id, undefined, () => undefined);
      assert.equal((await activity.of([record.id])).isRunning(record.id), true);
      assert.equal(await lastUse(), Number.POSITIVE_INFINITY);
      execution[Symbol.dispose]();
      assert.equal((await activity.of([record.id])).isRunning(record.id), false);
      const usedAt = await lastUse();
      // It may be too late, by what is not stored yet, and never too early.
      assert.ok(usedAt >= begunAt && usedAt <= begunAt + 5_000, `${usedAt} is not ${begunAt}`);
      await rest.tidy();
      await rest.stop();
    });

    it(`the coordination of ${name} looks at nothing of other servers after it was told to stop`, async () => {
      let looks = 0;
      const looking = begun.coordination.watchOthers('test', async () => looks++, 1);
      await looking.stop();
      const seen = looks;
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(looks, seen);
    });
  });
}
