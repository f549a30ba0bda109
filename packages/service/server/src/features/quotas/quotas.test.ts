import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OrgId, operations, QUOTA_NAMES, type QuotaName, type QuotaUse } from '@cloche/contract';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import {
  addProjects,
  credentialOf,
  DEFAULT_PROJECT,
  ORG,
  OTHER_PROJECT,
} from '../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../testing/silent.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { toEvent } from '../../platform/outbox/event-outbox.ts';
import { ProjectChanges } from '../projects/project-changes.ts';
import type { QuotaScope } from './limits.ts';
import { Quotas } from './quotas.ts';
import { RequestCounts } from './request-counts.ts';
import { RequestRates } from './request-rates.ts';

interface Counted {
  readonly created: number;
  readonly refusals: Set<string>;
}

/** Attempts creations at the same time. Any other failure than a refusal fails the test. */
async function createAtOnce(world: SandboxesWorld, count: number, body: object = {}): Promise<Counted> {
  const results = await Promise.allSettled(Array.from({ length: count }, () => world.create(body)));
  const refusals = new Set<string>();
  for (const result of results) {
    if (result.status === 'fulfilled') continue;
    assert.match(result.reason.code, /^(quota_exceeded|rate_limited)$/, result.reason);
    refusals.add(result.reason.details?.quota ?? result.reason.code);
  }
  return { created: results.filter(({ status }) => status === 'fulfilled').length, refusals };
}

async function useOf(world: SandboxesWorld, quota: QuotaName, scope: QuotaScope = { orgId: ORG }): Promise<QuotaUse> {
  const use = (await world.quotas.list(scope.orgId, scope.projectId && [scope.projectId])).find(
    (listed) => listed.quota === quota,
  );
  assert.ok(use);
  return use;
}

async function setProject(world: SandboxesWorld, quotas: Partial<Record<QuotaName, number | null>>): Promise<void> {
  await new ProjectChanges(world).update(UNAUDITED, { id: OTHER_PROJECT, orgId: ORG }, { quotas });
}

async function eventsOf(world: SandboxesWorld) {
  const rows = await world.db.selectFrom('events').selectAll().where('type', '=', 'quota.exceeded').execute();
  return rows.map(toEvent);
}

describe('a limit of live sandboxes', () => {
  it('a limit of live sandboxes lets exactly as many of 100 simultaneous creations through', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 10 });
    const { created, refusals } = await createAtOnce(world, 100);
    assert.deepEqual([created, [...refusals]], [10, ['liveSandboxes']]);
    assert.equal((await world.call(operations.listSandboxes)).data.length, 10);
    assert.deepEqual(await useOf(world, 'liveSandboxes'), { quota: 'liveSandboxes', limit: 10, used: 10 });
    await assert.rejects(world.create(), {
      code: 'quota_exceeded',
      details: { quota: 'liveSandboxes', limit: 10, used: 10 },
      message: /^The organization would exceed .*live sandboxes\): 10 of 10 in use, 1 more.*destroy one first\.$/,
    });
    await world.create({}, { credential: credentialOf('org_2' as OrgId) });
  });

  it('a limit of live sandboxes of a project holds in this project alone', async () => {
    await using world = await openSandboxes();
    await setProject(world, { liveSandboxes: 3 });
    assert.equal((await createAtOnce(world, 20, { projectId: OTHER_PROJECT })).created, 3);
    assert.equal((await createAtOnce(world, 5)).created, 5);
    await assert.rejects(world.create({ projectId: OTHER_PROJECT }), {
      message: /^The project "prj_other" would exceed .*: 3 of 3 in use/,
    });
    const scope = { orgId: ORG, projectId: OTHER_PROJECT };
    assert.deepEqual(await useOf(world, 'liveSandboxes', scope), {
      quota: 'liveSandboxes',
      limit: 3,
      used: 3,
      project: OTHER_PROJECT,
    });
  });

  it('a limit of live sandboxes of the organization counts all its projects, whichever limit is lower', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 4 });
    await setProject(world, { liveSandboxes: 3 });
    assert.equal((await createAtOnce(world, 2)).created, 2);
    assert.equal((await createAtOnce(world, 10, { projectId: OTHER_PROJECT })).created, 2);
  });

  it('a limit of live sandboxes counts a sandbox until it has ended, also one whose server died', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 2 });
    const first = await world.create();
    world.driver.holdLaunches();
    await world.create();
    world.driver.launchGate = undefined;
    await world.crash();
    await assert.rejects(world.create(), { code: 'quota_exceeded' });
    await world.kill(first.id);
    await world.create();
    assert.equal((await createAtOnce(world, 5)).created, 0);
  });

  it('a limit of live sandboxes gives a repeated request the sandbox of its first attempt, although no room is left', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    const attempts = Array.from({ length: 20 }, () => world.create({}, { idempotency: { recordId: 'idem_1' } }));
    assert.equal(new Set((await Promise.all(attempts)).map(({ id }) => id)).size, 1);
  });

  it('a limit of live sandboxes is in force from the next creation on, and no longer after its removal', async () => {
    await using world = await openSandboxes();
    await createAtOnce(world, 3);
    await world.limits.setOrganization(ORG, { liveSandboxes: 0 });
    assert.equal((await createAtOnce(world, 3)).created, 0);
    await world.limits.setOrganization(ORG, { liveSandboxes: null });
    assert.equal((await createAtOnce(world, 3)).created, 3);
    const { limited } = await world.db.selectFrom('projects').select('limited').executeTakeFirstOrThrow();
    assert.equal(limited, 0);
  });
});

describe('limits of processors and memory', () => {
  it('limits of processors and memory count what live sandboxes may take together', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveCpu: 1 });
    // 0.1 has no exact form in binary, so its sum has none either.
    assert.equal((await createAtOnce(world, 30, { resources: { cpu: 0.1 } })).created, 10);
    assert.equal((await useOf(world, 'liveCpu')).used, 1);
    await world.limits.setOrganization(ORG, { liveCpu: null, liveMemoryMb: 10 * 512 + 1024 });
    const { created, refusals } = await createAtOnce(world, 10, { resources: { memoryMb: 600 } });
    assert.deepEqual([created, [...refusals]], [1, ['liveMemoryMb']]);
    assert.equal((await useOf(world, 'liveMemoryMb')).used, 10 * 512 + 600);
  });
});

describe('a limit of sandboxes created in a minute', () => {
  it('slides: room returns a minute after each creation, as Retry-After says', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 5 });
    assert.equal((await createAtOnce(world, 2)).created, 2);
    // Creations at one time get times of their own (7.60): half a second is room for them before the next whole second.
    world.clock.advance(20_500);
    const { created, refusals } = await createAtOnce(world, 100);
    assert.deepEqual([created, [...refusals]], [3, ['rate_limited']]);
    await assert.rejects(world.create(), { code: 'rate_limited', retryAfterSeconds: 40 });
    world.clock.advance(40_500);
    assert.equal((await createAtOnce(world, 10)).created, 2);
    await assert.rejects(world.create(), { code: 'rate_limited', retryAfterSeconds: 20 });
  });

  it('a limit of sandboxes created in a minute holds after the clock was set back, for those created since then', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 3 });
    await createAtOnce(world, 3);
    world.clock.advance(-3_600_000);
    assert.equal((await useOf(world, 'sandboxesPerMinute')).used, 0);
    const { created, refusals } = await createAtOnce(world, 10);
    assert.deepEqual([created, [...refusals]], [3, ['rate_limited']]);
    world.clock.advance(60_000);
    assert.equal((await createAtOnce(world, 10)).created, 3);
  });

  it('a limit of sandboxes created in a minute of 0 lets nothing be created', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 0 });
    await assert.rejects(world.create(), { code: 'rate_limited', retryAfterSeconds: 60 });
  });
});

describe('a refusal', () => {
  it('a refusal is an event, at most one in a minute for each quota and project', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    await createAtOnce(world, 20);
    await createAtOnce(world, 5, { projectId: OTHER_PROJECT });
    const quota = { quota: 'liveSandboxes', limit: 1, used: 1 };
    assert.deepEqual(
      (await eventsOf(world)).map(({ projectId, data }) => ({ projectId, data })),
      [
        { projectId: DEFAULT_PROJECT, data: { quota } },
        { projectId: OTHER_PROJECT, data: { quota } },
      ],
    );
    world.clock.advance(60_000);
    await createAtOnce(world, 5);
    assert.equal((await eventsOf(world)).length, 3);
  });
});

describe('a limit of a project', () => {
  it('a limit of a project is at most that of its organization', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 4 });
    await assert.rejects(setProject(world, { liveSandboxes: 5 }), {
      code: 'invalid_request',
      message: /^body\.quotas\.liveSandboxes is 5; the limit of the organization is 4/,
    });
    await setProject(world, { liveSandboxes: 4, previews: 100 });
    await setProject(world, { liveSandboxes: null });
  });
});

describe('a limit of requests in a minute', () => {
  function openRates(world: SandboxesWorld, processId: string) {
    const { quotas, db, transactions, clock } = world;
    const counts = new RequestCounts({ db, transactions, clock, log: SILENT, processId });
    const rates = new RequestRates({ quotas, counts, clock });
    const sendMany = async (count: number, credential = credentialOf()) => {
      const decisions = await Promise.all(Array.from({ length: count }, () => rates.limitRequest(credential)));
      return decisions.filter((decision) => decision?.refusal === undefined).length;
    };
    return { counts, rates, sendMany };
  }

  it('a limit of requests in a minute lets as many requests through, and more when the first are over a minute old', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { requestsPerMinute: 10 });
    const { rates, sendMany } = openRates(world, 'srv_a');
    assert.equal(await sendMany(4), 4);
    world.clock.advance(20_000);
    assert.equal(await sendMany(100), 6);
    const refused = await rates.limitRequest(credentialOf());
    assert.equal(refused?.refusal?.code, 'rate_limited');
    const retryAfter = refused?.refusal?.retryAfterSeconds ?? 0;
    assert.ok(retryAfter >= 40 && retryAfter <= 42, String(retryAfter));
    assert.deepEqual(refused?.headers, {
      'ratelimit-policy': '"organization";q=10;w=60',
      ratelimit: `"organization";r=0;t=${retryAfter}`,
    });
    world.clock.advance(retryAfter * 1000);
    assert.equal(await sendMany(100), 4);
  });

  it('a limit of requests in a minute that was lowered is refused until there is room for one, as its fields say', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { requestsPerMinute: 3 });
    const { rates, sendMany } = openRates(world, 'srv_a');
    for (let count = 0; count < 3; count += 1) {
      await sendMany(1);
      world.clock.advance(10_000);
    }
    await world.limits.setOrganization(ORG, { requestsPerMinute: 1 });
    const refused = await rates.limitRequest(credentialOf());
    assert.equal(refused?.refusal?.retryAfterSeconds, 51);
    assert.equal(refused?.headers.ratelimit, '"organization";r=0;t=51');
  });

  it('a limit of requests in a minute counts the requests of other servers, and those before a restart, within a second', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { requestsPerMinute: 10 });
    const second = () => Math.floor(world.clock.now() / 1000);
    const a = openRates(world, 'srv_a');
    const b = openRates(world, 'srv_b');
    assert.deepEqual([await a.sendMany(4), await b.sendMany(3)], [4, 3]);
    for (const { counts } of [a, b, a]) await counts.synchronize(second());
    assert.equal(await a.sendMany(100), 3);
    await a.counts.synchronize(second());
    assert.equal(await openRates(world, 'srv_after_the_restart').sendMany(100), 0);
    assert.equal((await useOf(world, 'requestsPerMinute')).used, 10);
  });

  it('a limit of requests in a minute of a project applies to keys that are bound to it, and to no other', async () => {
    await using world = await openSandboxes();
    await setProject(world, { requestsPerMinute: 2 });
    const { rates, sendMany } = openRates(world, 'srv_a');
    assert.equal(await sendMany(10, credentialOf(ORG, [OTHER_PROJECT])), 2);
    assert.equal(await sendMany(10, credentialOf(ORG, [DEFAULT_PROJECT])), 10);
    assert.equal(await rates.limitRequest(credentialOf()), undefined);
  });
});

describe('the uses of quotas', () => {
  /** Returns quotas that count their queries. */
  function countQueries(world: SandboxesWorld) {
    let queries = 0;
    const db = world.db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        queries += 1;
        return result;
      },
    });
    const quotas = new Quotas({ ...world, db, transactions: new Transactions(db), defaults: {} });
    const during = async (act: () => Promise<unknown>) => {
      const before = queries;
      await act();
      return queries - before;
    };
    return { quotas, during };
  }

  it('the uses of quotas are read with as few queries for many projects as for one', async () => {
    await using world = await openSandboxes();
    const projectIds = await addProjects(world.db, 30);
    for (const projectId of projectIds.slice(0, 3)) await world.create({ projectId });
    const { quotas, during } = countQueries(world);
    const ofOne = await during(() => quotas.list(ORG, projectIds.slice(0, 1)));
    assert.equal(await during(() => quotas.list(ORG, projectIds)), ofOne);
    const listed = await quotas.list(ORG, projectIds);
    const live = listed.filter(({ quota }) => quota === 'liveSandboxes');
    assert.deepEqual(
      live.map(({ project, used }) => [project, used]),
      projectIds.map((projectId, index) => [projectId, index < 3 ? 1 : 0]),
    );
    for (const [index, projectId] of projectIds.slice(0, 4).entries()) {
      const own = listed.slice(index * QUOTA_NAMES.length, (index + 1) * QUOTA_NAMES.length);
      assert.deepEqual(own, await quotas.list(ORG, [projectId]));
    }
  });

  it('the uses of quotas are read with one query for all limits that a request concerns', async () => {
    await using world = await openSandboxes();
    const { quotas, during } = countQueries(world);
    const scope = { orgId: ORG, projectId: OTHER_PROJECT };
    const admit = () =>
      during(() =>
        quotas.admit(scope, (_, requireRoom) => requireRoom({ liveSandboxes: 1, liveCpu: 1, liveMemoryMb: 1 })),
      );
    await world.limits.setOrganization(ORG, { liveSandboxes: 9 });
    const withOneLimit = await admit();
    const limits = { liveSandboxes: 9, liveCpu: 9, liveMemoryMb: 9999 };
    await world.limits.setOrganization(ORG, limits);
    await setProject(world, limits);
    assert.equal(await admit(), withOneLimit);
  });
});
