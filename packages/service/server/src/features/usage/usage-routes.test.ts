/** The list of usage, as its route answers it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type UsageRow } from '@cloche/contract';
import { compiledForPostgres } from '../../../testing/compiled-for-postgres.ts';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { credentialOf, DEFAULT_PROJECT, ORG, OTHER_PROJECT } from '../../../testing/seeded-organizations.ts';
import type { TestRequest } from '../../../testing/test-request.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { HOUR_COLUMNS, HOUR_MS, NO_USE } from '../metering/hour-sums.ts';
import { UsageHours } from '../metering/usage-hours.ts';
import { ProjectChanges } from '../projects/project-changes.ts';
import { readUsage } from './usage-report.ts';

const list = async (
  world: SandboxesWorld,
  query: Record<string, unknown> = {},
  call: TestRequest = {},
): Promise<UsageRow[]> => (await world.call(operations.listUsage, { ...call, query })).data;
const ready = (world: SandboxesWorld, body: object = {}) =>
  world.createReady({ resources: { memoryMb: 256, diskMb: 128 }, ...body });

async function pass(world: SandboxesWorld, afterMs = 10_000): Promise<void> {
  world.clock.advance(afterMs);
  await world.usage.rollUp.pass();
}

describe('a list of usage', () => {
  it('a list of usage has the rows of each project that the key may use, of days or hours, oldest first', async () => {
    await using world = await openSandboxes();
    await ready(world);
    await ready(world, { projectId: OTHER_PROJECT });
    await pass(world, 2 * HOUR_MS);
    const summary = (rows: readonly UsageRow[]) =>
      rows.map(({ from, projectId }) => `${from.slice(11, 13)} ${projectId}`);
    assert.deepEqual(summary(await list(world)), ['00 prj_default', '00 prj_other']);
    const hours = ['00 prj_default', '00 prj_other', '01 prj_default', '01 prj_other'];
    assert.deepEqual(summary(await list(world, { groupBy: 'hour' })), hours);
    assert.deepEqual(summary(await list(world, { projectId: OTHER_PROJECT })), ['00 prj_other']);
    const bound = { credential: credentialOf(undefined, [OTHER_PROJECT]) };
    assert.deepEqual(summary(await list(world, {}, bound)), ['00 prj_other']);
    await assert.rejects(list(world, { projectId: DEFAULT_PROJECT }, bound), { code: 'forbidden' });
    await assert.rejects(list(world, { projectId: 'prj_foreign' }), { code: 'not_found' });
  });

  it('still has the usage of a deleted project', async () => {
    await using world = await openSandboxes();
    const id = await ready(world, { projectId: OTHER_PROJECT });
    await pass(world);
    await world.kill(id);
    await new ProjectChanges(world).delete(UNAUDITED, OTHER_PROJECT);
    const [row] = await list(world, { projectId: OTHER_PROJECT });
    assert.equal(row?.sandboxMs, 10_000);
    assert.equal((await list(world)).length, 1);
  });

  it('widens its range to whole days or hours, and begins with the month unless the request says otherwise', async () => {
    await using world = await openSandboxes();
    const add = (hour: string) =>
      world.db
        .insertInto('usage_hours')
        .values({
          org_id: 'org_1',
          project_id: DEFAULT_PROJECT,
          hour: Date.parse(hour),
          ...NO_USE,
          sandbox_ms: 1,
        })
        .execute();
    for (const hour of ['2025-11-30T23:00Z', '2025-12-01T00:00Z', '2025-12-31T23:00Z', '2026-01-01T00:00Z']) {
      await add(hour);
    }
    const froms = async (query: Record<string, unknown>) =>
      (await list(world, query)).map(({ from }) => from.slice(0, 13));
    assert.deepEqual(await froms({}), ['2026-01-01T00']);
    assert.deepEqual(await froms({ to: '2026-01-01' }), ['2025-12-01T00', '2025-12-31T00']);
    assert.deepEqual(await froms({ from: '2025-11-30', to: '2025-12-01T00:00:01Z' }), [
      '2025-11-30T00',
      '2025-12-01T00',
    ]);
    const hours = { from: '2025-11-30T23:59:59Z', to: '2025-12-01T00:00:00Z', groupBy: 'hour' };
    assert.deepEqual(await froms(hours), ['2025-11-30T23']);
    assert.deepEqual(await froms({ from: '2025-12-01T00:30+01:00', to: '2025-12-01', groupBy: 'hour' }), [
      '2025-11-30T23',
    ]);
  });

  it('a list of usage refuses ranges that are too long, empty or no times, and says what to request instead', async () => {
    await using world = await openSandboxes();
    const refusal = async (query: Record<string, unknown>) => {
      const error = await list(world, query).then(
        () => undefined,
        (reason) => reason,
      );
      assert.equal(error?.code, 'invalid_request', JSON.stringify(query));
      return error.message as string;
    };
    const to = '2026-01-01';
    await list(world, { from: '2024-11-27', to });
    assert.equal(
      await refusal({ from: '2024-11-26', to }),
      'query.from begins 401 days before the end of the range, which may have at most 400; request a later `from` or an earlier `to`',
    );
    await list(world, { from: '2025-11-28T16:00Z', to, groupBy: 'hour' });
    assert.match(await refusal({ from: '2025-11-28T15:59Z', to, groupBy: 'hour' }), /801 hours .* `groupBy=day`$/);
    assert.match(await refusal({ from: to, to }), /must be before the end/);
    assert.match(await refusal({ from: 'yesterday' }), /^query\.from must be a time such as/);
    assert.match(await refusal({ to: '1' }), /^query\.to must be a time such as/);
    assert.match(await refusal({ from: '0001-01-01', to }), /at most 400/);
  });

  it('a list of usage refuses more rows than an answer may have', async () => {
    await using world = await openSandboxes();
    const rows = Array.from({ length: 10_001 }, (_, index) => ({
      org_id: 'org_1',
      project_id: `prj_${index}`,
      hour: Date.parse('2026-01-01T00:00Z'),
      ...Object.fromEntries(HOUR_COLUMNS.map((name) => [name, 1])),
    }));
    const insert = (some: typeof rows) =>
      world.db
        .insertInto('usage_hours')
        .values(some as never)
        .execute();
    for (let at = 0; at < rows.length - 1; at += 500) await insert(rows.slice(at, Math.min(at + 500, rows.length - 1)));
    const answered = await list(world);
    assert.deepEqual([answered.length, answered.every(({ runs }) => runs === 1)], [10_000, true]);
    await insert(rows.slice(-1));
    await assert.rejects(list(world), { code: 'invalid_request', message: /more than 10000 rows .* one project$/ });
  });
});

it('on PostgreSQL, the sums of an hour increase by what is added, and pages follow each other', async () => {
  const { db, queries } = compiledForPostgres();
  const transactions = new Transactions(db);
  const owner = { orgId: ORG, projectId: DEFAULT_PROJECT };
  await transactions.run((tx) => new UsageHours(db).add(tx, owner, 0, { runs: 1 }));
  await readUsage(db, { orgId: ORG, projectIds: [OTHER_PROJECT], from: 0, to: HOUR_MS, groupBy: 'hour' });
  const [added = '', read = ''] = queries.map(({ sql }) => sql).filter((sql) => sql.includes('usage_hours'));
  assert.match(
    added,
    /on conflict \("org_id", "hour", "project_id"\) do update set "sandbox_ms" = "usage_hours"\."sandbox_ms" \+ "excluded"\."sandbox_ms", /,
  );
  assert.match(
    read,
    /"hour" >= \$2 and "hour" < \$3 and "project_id" in \(\$4\) order by "hour", "project_id" limit \$5$/,
  );
});
