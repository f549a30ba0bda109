import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ArtifactId, PreviewId, ProjectId, ResourceEvent } from '@cloche/contract';
import { compiledForPostgres } from '../../../testing/compiled-for-postgres.ts';
import { repositoryOf } from '../../../testing/sandbox-repository.ts';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { ORG, OTHER_PROJECT } from '../../../testing/seeded-organizations.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { toProject } from '../../platform/tenancy/project.ts';
import type { ArtifactRecord } from '../artifacts/artifact.ts';
import { type NewPreview, SqlPreviewRepository } from '../previews/preview-repository.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { ProjectChanges } from './project-changes.ts';

async function aSandbox(world: SandboxesWorld): Promise<SandboxRecord> {
  const { id } = await world.create({ projectId: OTHER_PROJECT });
  await world.kill(id);
  const record = await repositoryOf(world).find(id);
  assert.ok(record);
  return { ...record, status: 'creating', idempotencyRecordId: undefined };
}

const newProject = (id: ProjectId) => ({
  id,
  orgId: ORG,
  name: id,
  metadata: {},
  quotas: {},
  idempotencyRecordId: undefined,
});

describe('the projects of an organization', () => {
  it('the projects of an organization have a limit, which deleted ones do not count for and simultaneous creations do not exceed', async () => {
    await using world = await openSandboxes();
    const changes = new ProjectChanges(world);
    const insert = (name: string, max = 6) => changes.insert(UNAUDITED, newProject(`prj_${name}` as ProjectId), max);
    const results = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => insert(name)));
    const created = results.flatMap((result) => (result.status === 'created' ? [result.project.id] : []));
    // The organization has two projects from the start.
    assert.equal(created.length, 4);
    assert.deepEqual(await insert('more'), { status: 'full', used: 6 });
    await changes.delete(UNAUDITED, created[0] ?? assert.fail());
    assert.equal((await insert('more')).status, 'created');
    assert.equal(
      (await changes.insert(UNAUDITED, { ...newProject('prj_last' as ProjectId), idempotencyRecordId: 'idem_1' }, 7))
        .status,
      'created',
    );
    const again = await changes.insert(
      UNAUDITED,
      { ...newProject('prj_again' as ProjectId), idempotencyRecordId: 'idem_1' },
      7,
    );
    assert.ok(again.status === 'exists' && again.project.id === 'prj_last');
  });
});

describe('a sandbox that is created while its project is deleted', () => {
  it('a sandbox that is created while its project is deleted is refused if the deletion comes first, although the request found the project', async () => {
    await using world = await openSandboxes();
    const sandboxes = repositoryOf(world);
    const record = await aSandbox(world);
    await new ProjectChanges(world).delete(UNAUDITED, OTHER_PROJECT);
    const inserted = await sandboxes.insert(UNAUDITED, { ...record, id: 'sbx_late' });
    assert.deepEqual(inserted, { status: 'project_deleted' });
    assert.equal(await sandboxes.find('sbx_late'), undefined);
  });

  it('a sandbox that is created while its project is deleted never lives in a deleted project, in whatever order they run', async () => {
    await using world = await openSandboxes();
    const changes = new ProjectChanges(world);
    const outcomes = new Set<string>();
    for (let round = 0; round < 20; round += 1) {
      const projectId = `prj_${round}` as ProjectId;
      await changes.insert(UNAUDITED, newProject(projectId), 1000);
      const creating = () => world.create({ projectId }).catch(({ code }) => assert.equal(code, 'not_found'));
      // Gives the creation a head start of some turns, so that each of the two comes first in some rounds.
      const deleting = async () => {
        for (let turn = 0; turn < round % 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        return changes.delete(UNAUDITED, projectId);
      };
      const [sandbox, deletion] = await Promise.all([creating(), deleting()]);
      assert.equal(deletion.status, sandbox ? 'in_use' : 'deleted');
      outcomes.add(deletion.status);
    }
    assert.deepEqual([...outcomes].sort(), ['deleted', 'in_use']);
  });
});

describe('the events of projects', () => {
  it('the events of projects are one for a creation and one for a deletion, each with the project at that time', async () => {
    await using world = await openSandboxes();
    const changes = new ProjectChanges(world);
    const id = 'prj_1' as ProjectId;
    const project = { ...newProject(id), idempotencyRecordId: 'idem_1' };
    const events: ResourceEvent[] = [];
    world.outbox.onCommitted((event) => events.push(event));
    assert.equal((await changes.insert(UNAUDITED, project, 1000)).status, 'created');
    assert.equal((await changes.insert(UNAUDITED, project, 1000)).status, 'exists');
    assert.deepEqual(await changes.insert(UNAUDITED, newProject(id), 1000), { status: 'name_taken' });
    const deletion = await changes.delete(UNAUDITED, id);
    await changes.delete(UNAUDITED, id);
    assert.deepEqual(
      events.map(({ type, projectId }) => [type, projectId]),
      [
        ['project.created', id],
        ['project.deleted', id],
      ],
    );
    assert.ok(deletion.status === 'deleted' && deletion.project.deletedAt !== undefined);
    assert.deepEqual(events[1]?.data, { project: toProject(deletion.project) });
  });
});

describe('what is created in a project while it is deleted', () => {
  it('what is created in a project while it is deleted is refused: artifacts and previews', async () => {
    await using world = await openSandboxes();
    const { id: sandboxId } = await world.create({ projectId: OTHER_PROJECT });
    await world.kill(sandboxId);
    await new ProjectChanges(world).delete(UNAUDITED, OTHER_PROJECT);
    const artifact: ArtifactRecord = {
      id: 'art_1' as ArtifactId,
      orgId: ORG,
      projectId: OTHER_PROJECT,
      sandboxId,
      name: 'late',
      path: undefined,
      contentType: 'text/plain',
      sizeBytes: 0,
      sha256: '',
      metadata: {},
      createdAt: 0,
      expiresAt: undefined,
      deletedAt: undefined,
      idempotencyRecordId: undefined,
    };
    await assert.rejects(world.artifacts.insert(artifact), { code: 'not_found' });
    assert.equal(await world.artifacts.find(artifact.id), undefined);
    const previews = new SqlPreviewRepository({ ...world, urlOf: () => '' });
    const preview: NewPreview = {
      id: 'prv_1' as PreviewId,
      orgId: ORG,
      projectId: OTHER_PROJECT,
      sandboxId,
      port: 8000,
      visibility: 'public',
      tokenHash: undefined,
      apiKeyId: undefined,
      createdAt: 0,
      expiresAt: undefined,
      idempotencyRecordId: undefined,
    };
    await assert.rejects(previews.insert(UNAUDITED, preview, { maxOpen: 1, requireRoom: async () => {} }), {
      code: 'not_found',
    });
    assert.equal(await previews.find(preview.id), undefined);
  });
});

it('on PostgreSQL, a deletion and the insert of a sandbox lock the row of the project against each other', async () => {
  const { db, queries } = compiledForPostgres();
  await using world = await openSandboxes();
  await assert.rejects(
    new ProjectChanges({ ...world, db, transactions: new Transactions(db) }).delete(UNAUDITED, OTHER_PROJECT),
  );
  await repositoryOf(world, db)
    .insert(UNAUDITED, await aSandbox(world), undefined)
    .catch(() => undefined);
  const [found = '', inserted = ''] = queries.map(({ sql }) => sql).filter((sql) => !/^(begin|rollback)/.test(sql));
  assert.match(found, /from "projects" where "id" = \$1 for update$/);
  assert.match(inserted, /^insert into "sandboxes" .* from "projects" where .* for key share on conflict/);
});
