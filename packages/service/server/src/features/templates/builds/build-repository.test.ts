import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { OrgId, TemplateBuildId, TemplateId, TemplateVersionId } from '@cloche/contract';
import { addOrganizations, seed } from '../../../../testing/seeded-organizations.ts';
import { openTestDatabase } from '../../../../testing/test-database.ts';
import { Changes } from '../../../platform/base/changes.ts';
import type { Database } from '../../../platform/db/database.ts';
import { Transactions } from '../../../platform/db/transactions.ts';
import { BuildRepository } from './build-repository.ts';

const AT_ONCE = 2;

/** Opens the builds of some organizations. Each next build is created a millisecond after the one before. */
async function openBuilds(db: Database, count: number) {
  const builds = new BuildRepository(db, new Changes());
  const transactions = new Transactions(db);
  let now = 0;
  const orgs = await addOrganizations(db, count);
  const template = { id: 'tpl_1', org_id: 'org_more_0', slug: 'a', description: '', languages: '[]', created_at: 0 };
  await db.insertInto('custom_templates').values(template).execute();
  const queue = (org: OrgId | undefined, name: string) =>
    transactions.run((tx) => {
      const id = name as TemplateBuildId;
      const of = { templateId: 'tpl_1' as TemplateId, templateSlug: 'a', fromVersionId: 'tplv_1' as TemplateVersionId };
      const plan = { networkPolicy: { mode: 'deny-all' }, settings: {}, steps: [] } as never;
      now += 1;
      return builds.insert(
        { id, orgId: org as OrgId, ...of, steps: [], plan, idempotencyRecordId: undefined },
        now,
        tx,
      );
    });
  /** Begins or ends the first build that is due. */
  const next = async () => {
    now += 1;
    const [first] = await builds.listDue(now, AT_ONCE, 100);
    assert.ok(first);
    await db.updateTable('template_builds').set({ claimed_by: first.id }).where('id', '=', first.id).execute();
    await transactions.run((tx) => builds.begin(first, first.id, now, tx));
    await db
      .updateTable('template_builds')
      .set({ claimed_until: now + 1000 })
      .where('id', '=', first.id)
      .execute();
    return first.id;
  };
  const end = async (id: string) => {
    await db
      .updateTable('template_builds')
      .set({ claimed_by: null, claimed_until: null })
      .where('id', '=', id)
      .execute();
    await transactions.run((tx) => builds.end(id as TemplateBuildId, { status: 'canceled' }, now, tx));
  };
  return { queue, next, end, orgs };
}

it('an organization that queues builds after others begins one before those begin a second one', async () => {
  await using db = await openTestDatabase();
  await seed(db);
  const { queue, next, orgs } = await openBuilds(db, 3);
  const [a, b, c] = orgs;
  for (const number of [1, 2, 3]) await queue(a, `a${number}`);
  for (const number of [1, 2, 3]) await queue(b, `b${number}`);
  await queue(c, 'c1');
  const begun = [await next(), await next(), await next(), await next(), await next()];
  assert.deepEqual(begun, ['a1', 'b1', 'c1', 'a2', 'b2']);
});

it('organizations alternate although each has one place only', async () => {
  await using db = await openTestDatabase();
  await seed(db);
  const { queue, next, end, orgs } = await openBuilds(db, 3);
  const [a, b, c] = orgs;
  for (const number of [1, 2, 3]) await queue(a, `a${number}`);
  for (const number of [1, 2, 3]) await queue(b, `b${number}`);
  await queue(c, 'c1');
  const begun: string[] = [];
  for (let turn = 0; turn < 7; turn += 1) {
    const id = await next();
    begun.push(id);
    await end(id);
  }
  assert.deepEqual(begun, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'b3']);
});
