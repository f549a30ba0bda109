/** Tests decisions that two servers of one database make at once; with SQLite, two services of one server. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ApiKeyId, OrgId, PreviewId, SandboxId, SecretId, WorkspaceRunId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import { repositoryOf } from '../../testing/sandbox-repository.ts';
import { openSandboxes, type SandboxesWorld } from '../../testing/sandboxes.ts';
import { DEFAULT_PROJECT, ORG, OTHER_PROJECT } from '../../testing/seeded-organizations.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { SILENT } from '../../testing/silent.ts';
import { openBeside } from '../../testing/test-database.ts';
import { newRun, runRepositoryOf } from '../../testing/workspace-runs.ts';
import { SqlPreviewRepository } from '../features/previews/preview-repository.ts';
import { ProjectChanges } from '../features/projects/project-changes.ts';
import { Quotas } from '../features/quotas/quotas.ts';
import { SecretRepository } from '../features/secrets/secret-repository.ts';
import { MarkSigner } from '../platform/audit-log/audit-chain.ts';
import { AuditLog } from '../platform/audit-log/audit-log.ts';
import { VerifyChain } from '../platform/audit-log/verify-chain.ts';
import { systemClock } from '../platform/base/clock.ts';
import { randomIds } from '../platform/base/id-source.ts';
import { UNAUDITED } from '../platform/call/call.ts';
import { ServerLease } from '../platform/cluster/server-lease.ts';
import { ClaimedRows } from '../platform/db/claimed-rows.ts';
import type { Database } from '../platform/db/database.ts';
import { Transactions } from '../platform/db/transactions.ts';
import { HeldClaims } from '../platform/idempotency/held-claims.ts';
import { Idempotency } from '../platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import { EventOutbox } from '../platform/outbox/event-outbox.ts';
import { OrgRepository } from '../platform/tenancy/org-repository.ts';

/** The services that each server has of its own. */
function serverOf(db: Database) {
  const transactions = new Transactions(db);
  const outbox = new EventOutbox(db, systemClock, randomIds);
  return {
    db,
    transactions,
    outbox,
    quotas: new Quotas({ db, transactions, outbox, clock: systemClock, defaults: {} }),
  };
}
type TestServer = ReturnType<typeof serverOf>;

let world: SandboxesWorld;
let servers: [TestServer, TestServer];
beforeEach(async () => {
  world = await openSandboxes();
  servers = [serverOf(world.db), serverOf(await openBeside(world.db))];
});
afterEach(async () => {
  const [one, other] = servers;
  if (other.db !== one.db) await other.db.destroy();
  await world[Symbol.asyncDispose]();
});

/** Calls `act` many times at once, on each server in turn. Returns the values, or the errors' codes. */
async function atOnce<T>(
  count: number,
  act: (server: TestServer, index: number) => Promise<T>,
): Promise<(T | string)[]> {
  const results = await Promise.allSettled(
    Array.from({ length: count }, (_, index) => act(servers[index % 2] ?? servers[0], index)),
  );
  return results.map((result) => {
    if (result.status === 'fulfilled') return result.value;
    if (typeof result.reason.code !== 'string') throw result.reason;
    return result.reason.code;
  });
}

const countOf = <T>(values: readonly T[], value: T) => values.filter((each) => each === value).length;

/** Returns the record of a sandbox that a server is about to insert. */
async function sandboxRecord() {
  const { id } = await world.create({ projectId: OTHER_PROJECT });
  await world.kill(id);
  const record = await repositoryOf(world).find(id);
  assert.ok(record);
  return (index: number) => ({
    ...record,
    id: `sbx_at_once_${index}` as SandboxId,
    status: 'creating' as const,
    destroyedAt: undefined,
    destroyedReason: undefined,
    idempotencyRecordId: undefined,
  });
}

describe('two servers at once', () => {
  it('two servers at once create as many sandboxes as the limit of the organization lets, of 50', async () => {
    const recordOf = await sandboxRecord();
    await world.limits.setOrganization(ORG, { liveSandboxes: 10 });
    const results = await atOnce(50, ({ db, quotas }, index) =>
      quotas.admit({ orgId: ORG, projectId: OTHER_PROJECT }, async (tx, requireRoom) => {
        await requireRoom({ liveSandboxes: 1 });
        return (await repositoryOf(world, db).insert(UNAUDITED, recordOf(index), tx)).status;
      }),
    );
    assert.deepEqual([countOf(results, 'inserted'), countOf(results, 'quota_exceeded')], [10, 40]);
    const rows = await world.db.selectFrom('sandboxes').select('id').where('id', 'like', 'sbx_at_once_%').execute();
    assert.equal(rows.length, 10);
  });

  it('two servers at once create as many previews of a sandbox as its limit lets', async () => {
    const sandboxId = await world.createReady();
    const results = await atOnce(30, async ({ db, transactions, outbox }, index) => {
      const previews = new SqlPreviewRepository({ db, transactions, outbox, urlOf: (id) => `http://${id}.test` });
      const preview = {
        id: `prv_${index}` as PreviewId,
        ...{ orgId: ORG, projectId: DEFAULT_PROJECT, sandboxId, apiKeyId: undefined, port: 8000 },
        ...{ visibility: 'public' as const, tokenHash: undefined, createdAt: world.clock.now(), expiresAt: undefined },
        idempotencyRecordId: undefined,
      };
      return (await previews.insert(UNAUDITED, preview, { maxOpen: 4, requireRoom: async () => undefined })).status;
    });
    assert.deepEqual([countOf(results, 'inserted'), countOf(results, 'full')], [4, 26]);
  });

  it('two servers at once create as many secrets as an organization may have', async () => {
    const results = await atOnce(30, async ({ db, transactions }, index) => {
      const secret = {
        ...{
          id: `sec_${index}` as SecretId,
          orgId: ORG,
          projectId: DEFAULT_PROJECT,
          name: 'name',
          hosts: [],
          value: 'v',
        },
        idempotencyRecordId: undefined,
      };
      const limit = { limit: 7, requireRoom: async () => undefined, now: 0 };
      return (await new SecretRepository(db, transactions).insert(secret, limit)).status;
    });
    assert.deepEqual([countOf(results, 'inserted'), countOf(results, 'full')], [7, 23]);
  });

  it('two servers at once execute one of 30 equal requests, again after its failure, and replay its response', async () => {
    const clock = new FakeClock();
    const [one, other] = servers.map(
      ({ db }, index) => new Idempotency(new IdempotencyRepository(db), `srv_${index}`, clock, randomIds),
    );
    assert.ok(one && other);
    await world.db.deleteFrom('server_leases').execute();
    const leases = ['srv_0', 'srv_1'].map((id) => ({ id, lease_until: Number.MAX_SAFE_INTEGER }));
    await world.db.insertInto('server_leases').values(leases).execute();
    const scope = { orgId: 'org_1' as OrgId, apiKeyId: 'key_1' as ApiKeyId, method: 'POST', route: '/v1/x' };
    const claimsOf = async (key: string) => {
      const opened = await atOnce(30, ({ db }) =>
        (db === servers[0].db ? one : other).open({ ...scope, key }, { a: 1 }),
      );
      assert.equal(countOf(opened, 'idempotency_request_in_progress'), 29);
      const claims = opened.flatMap((each) =>
        typeof each !== 'string' && each.status === 'claimed' ? [each.claim] : [],
      );
      assert.equal(claims.length, 1);
      return claims[0] ?? assert.fail();
    };
    for (let round = 0; round < 10; round += 1) {
      await (await claimsOf(`key ${round}`)).fail();
      await (await claimsOf(`key ${round}`)).complete(200, `"${round}"`);
      const response = { status: 200, body: `"${round}"` };
      const again: unknown[] = await atOnce(10, () => other.open({ ...scope, key: `key ${round}` }, { a: 1 }));
      assert.deepEqual(again, Array(10).fill({ status: 'replay', response }));
    }
  });

  it('two servers at once keep their claims although their clocks differ by ten minutes', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    const scope = { orgId: 'org_1' as OrgId, apiKeyId: 'key_1' as ApiKeyId, method: 'POST', route: '/v1/x' };
    const records = new IdempotencyRepository(world.db);
    const skewed = [-600_000, 0, 600_000].map((skew, index) => {
      const [clock, held, serverId] = [{ now: () => Date.now() + skew }, new HeldClaims(), `srv_skewed_${index}`];
      const files = { removeExpired: async () => undefined };
      return {
        lease: new ServerLease({ db: world.db, records, held, files, serverId, version: '1', clock, log: SILENT }),
        idempotency: new Idempotency(records, serverId, clock, randomIds, {}, held),
      };
    });
    for (const { lease } of skewed) await lease.beat();
    for (const [index, { idempotency }] of skewed.entries()) {
      assert.equal((await idempotency.open({ ...scope, key: `key ${index}` }, {})).status, 'claimed');
    }
    for (const { lease } of skewed) await lease.beat();
    for (const [index] of skewed.entries()) {
      for (const { idempotency } of skewed) {
        const again = idempotency.open({ ...scope, key: `key ${index}` }, {});
        await assert.rejects(again, { code: 'idempotency_request_in_progress' });
      }
    }
  });

  it('number events without gaps, in the order in which they become visible', async () => {
    const seen: number[] = [];
    let isWritten = false;
    const reading = (async () => {
      while (true) {
        const isLast = isWritten;
        const query = world.db.selectFrom('events').select('seq').where('org_id', '=', 'org_2').orderBy('seq');
        const rows = await query.where('seq', '>', seen.at(-1) ?? 0).execute();
        seen.push(...rows.map(({ seq }) => seq));
        if (isLast) return;
      }
    })();
    await atOnce(100, ({ transactions, outbox }, index) =>
      transactions.run(async (tx) => {
        const preview = { id: `prv_${index}` };
        await outbox.append(tx, { type: 'preview.deleted', orgId: 'org_2', data: { preview } } as never);
        // A transaction that is undone gives its number back.
        if (index % 10 === 0) throw Object.assign(new Error('undone'), { code: 'undone' });
      }),
    );
    isWritten = true;
    await reading;
    assert.deepEqual(
      seen,
      Array.from({ length: 90 }, (_, index) => index + 1),
    );
  });

  it('append audit events to one chain', async () => {
    const signer = new MarkSigner(Buffer.alloc(32, 1));
    await atOnce(60, ({ db, transactions }, index) => {
      const actor = { type: 'api_key', id: 'key_1' as ApiKeyId } as const;
      const target = { type: 'sandbox', id: `sbx_${index}` } as const;
      const log = new AuditLog({ db, transactions, clock: systemClock, ids: randomIds, signer });
      return log.append({ orgId: 'org_2' as OrgId, actor, action: 'sandbox.created', target, outcome: 'allowed' });
    });
    const verified = await new VerifyChain(world.db, signer).verify('org_2' as OrgId);
    assert.deepEqual([verified.events, verified.problems], [60, []]);
  });

  it('two servers at once do not create a sandbox in a project that one of them deletes', async () => {
    const recordOf = await sandboxRecord();
    for (let round = 0; round < 10; round += 1) {
      const [{ db: inserting }, deleting] = servers;
      const projectId = `prj_round_${round}` as typeof OTHER_PROJECT;
      const changes = new ProjectChanges({ ...deleting, limits: deleting.quotas.limits, clock: systemClock });
      const project = { id: projectId, orgId: ORG, name: projectId, metadata: {}, quotas: {} };
      await changes.insert(UNAUDITED, { ...project, idempotencyRecordId: undefined }, 100);
      const inserts = [0, 1, 2].map((index) =>
        repositoryOf(world, inserting).insert(UNAUDITED, { ...recordOf(100 + round * 10 + index), projectId }),
      );
      const [deletion, ...inserted] = await Promise.all([changes.delete(UNAUDITED, projectId), ...inserts]);
      const made = countOf(
        inserted.map(({ status }) => status),
        'inserted',
      );
      assert.equal(deletion.status === 'deleted', made === 0, `${deletion.status}, ${made} inserted`);
    }
  });

  it('two servers at once start workspace runs while the limits of their organization change: none waits for the other for ever', async () => {
    const runs = runRepositoryOf(world);
    const results: unknown[] = await atOnce(60, async ({ quotas }, index) =>
      index % 3 === 0
        ? quotas.limits.setOrganization(ORG, { concurrentWorkspaceRuns: index })
        : (await runs.insert(UNAUDITED, newRun({ id: `wrun_at_once_${index}` as WorkspaceRunId }), 1000)).status,
    );
    assert.deepEqual([countOf(results, undefined), countOf(results, 'inserted')], [20, 40]);
  });

  it('claim a row for one of them', async () => {
    const webhook = {
      ...{ id: 'whk_1', org_id: ORG, url: 'https://a.test', events: '[]', enabled: 1, secret: '', cursor_seq: 0 },
      ...{ delivery_seq: 0, attempts: 0, next_attempt_at: 0, created_at: 0, updated_at: 0 },
    };
    await world.db.insertInto('webhooks').values(webhook).execute();
    for (let round = 0; round < 10; round += 1) {
      const results = await atOnce(20, ({ db }, index) =>
        new ClaimedRows(db, 'webhooks', 1000).acquire('whk_1', `srv_${index}:${round}`, round * 1000),
      );
      assert.equal(countOf(results, true), 1);
    }
  });

  it('make one first organization', async () => {
    await world.db.deleteFrom('projects').execute();
    await world.db.deleteFrom('orgs').execute();
    const orgs = await atOnce(6, ({ db }) => new OrgRepository(db, systemClock, randomIds).ensureFirst());
    assert.equal(new Set(orgs.map((org) => (typeof org === 'string' ? org : org.id))).size, 1);
  });
});
