import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProjectId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import {
  type CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely';
import { OTHER_PROJECT, openSandboxes, repositoryOf, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import type { Tables } from '../../db/database.ts';
import type { SandboxRecord } from '../../sandboxes/record/sandbox.ts';
import { ProjectChanges } from './project-changes.ts';

async function aSandbox(world: SandboxesWorld): Promise<SandboxRecord> {
  const { id } = await world.create({ projectId: OTHER_PROJECT });
  await world.kill(id);
  const record = await repositoryOf(world).find(id);
  assert.ok(record);
  return { ...record, status: 'creating', idempotencyRecordId: undefined };
}

describe('a sandbox that is created while its project is deleted', () => {
  it('is refused if the deletion comes first, although the request found the project', async () => {
    await using world = await openSandboxes();
    const sandboxes = repositoryOf(world);
    const record = await aSandbox(world);
    await new ProjectChanges(world.db, world.clock).delete(OTHER_PROJECT);
    const inserted = await sandboxes.insert({ ...record, id: 'sbx_late' }, undefined);
    assert.deepEqual(inserted, { status: 'project_deleted' });
    assert.equal(await sandboxes.find('sbx_late'), undefined);
  });

  it('never lives in a deleted project, in whatever order they run', async () => {
    await using world = await openSandboxes();
    const changes = new ProjectChanges(world.db, world.clock);
    const outcomes = new Set<string>();
    for (let round = 0; round < 20; round += 1) {
      const projectId = `prj_${round}` as ProjectId;
      await changes.insert({
        id: projectId,
        orgId: 'org_1',
        name: projectId,
        metadata: {},
        quotas: {},
        idempotencyRecordId: undefined,
      });
      const creating = () => world.create({ projectId }).catch(({ code }) => assert.equal(code, 'not_found'));
      // Gives the creation a head start of some turns, so that each of the two comes first in some rounds.
      const deleting = async () => {
        for (let turn = 0; turn < round % 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        return changes.delete(projectId);
      };
      const [sandbox, deletion] = await Promise.all([creating(), deleting()]);
      assert.equal(deletion.status, sandbox ? 'in_use' : 'deleted');
      outcomes.add(deletion.status);
    }
    assert.deepEqual([...outcomes].sort(), ['deleted', 'in_use']);
  });
});

it('on PostgreSQL, a deletion and the insert of a sandbox lock the row of the project against each other', async () => {
  const queries: CompiledQuery[] = [];
  const db = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => void queries.push(query),
  });
  await using world = await openSandboxes();
  await assert.rejects(new ProjectChanges(db, new FakeClock()).delete(OTHER_PROJECT));
  await repositoryOf(world, db)
    .insert(await aSandbox(world), undefined)
    .catch(() => undefined);
  const [found = '', inserted = ''] = queries.map(({ sql }) => sql).filter((sql) => !/^(begin|rollback)/.test(sql));
  assert.match(found, /from "projects" where "id" = \$1 for update$/);
  assert.match(inserted, /^insert into "sandboxes" .* from "projects" where .* for key share on conflict/);
});
