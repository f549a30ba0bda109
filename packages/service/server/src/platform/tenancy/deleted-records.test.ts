import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { DEFAULT_PROJECT, ORG } from '../../../testing/seeded-organizations.ts';
import { DeletedRecords } from './deleted-records.ts';

const DAY_MS = 86_400_000;
const RETENTIONS = { recordMs: 10 * DAY_MS, eventMs: 40 * DAY_MS, auditMs: 50 * DAY_MS };
const NOW = 2_000 * DAY_MS;

const recordsOf = ({ db, transactions }: SandboxesWorld) => new DeletedRecords(db, transactions, RETENTIONS);

async function addProject({ db }: SandboxesWorld, id: string, deletedAt: number | null): Promise<void> {
  const row = { id, org_id: ORG, name: id, name_key: id, is_default: 0, created_at: 0, updated_at: 0 };
  await db
    .insertInto('projects')
    .values({ ...row, deleted_at: deletedAt })
    .execute();
}

async function addSecret(
  { db }: SandboxesWorld,
  id: string,
  deletedAt: number | null,
  projectId = DEFAULT_PROJECT as string,
) {
  const row = {
    id,
    org_id: ORG,
    project_id: projectId,
    name: id,
    hosts: '[]',
    value: '',
    created_at: 0,
    updated_at: 0,
  };
  await db
    .insertInto('secrets')
    .values({ ...row, deleted_at: deletedAt, idempotency_record_id: null })
    .execute();
}

async function addWebhook({ db }: SandboxesWorld, id: string, deletedAt: number | null) {
  const row = {
    id,
    org_id: ORG,
    project_id: null,
    url: 'https://a.test/',
    events: '["*"]',
    description: null,
    enabled: 1,
  };
  const times = { next_attempt_at: 0, created_at: 0, updated_at: 0, deleted_at: deletedAt };
  const counts = { cursor_seq: 0, delivery_seq: 0, attempts: 0 };
  await db
    .insertInto('webhooks')
    .values({ ...row, ...times, ...counts, secret: '', idempotency_record_id: null } as never)
    .execute();
}

async function idsOf(
  { db }: SandboxesWorld,
  table: 'projects' | 'secrets' | 'webhooks' | 'artifacts',
): Promise<string[]> {
  return (await db.selectFrom(table).select('id').orderBy('id').execute()).map(({ id }) => id);
}

describe('the rows of what was deleted', () => {
  it('the rows of what was deleted are removed after their retention: secrets and webhooks, never those that were not deleted', async () => {
    await using world = await openSandboxes();
    const [old, recent] = [NOW - RETENTIONS.recordMs - 1, NOW - RETENTIONS.recordMs];
    for (const [name, at] of [
      ['old', old],
      ['recent', recent],
      ['kept', null],
    ] as const) {
      await addSecret(world, `sec_${name}`, at);
      await addWebhook(world, `whk_${name}`, at);
    }
    assert.equal(await recordsOf(world).forget(NOW), 2);
    assert.deepEqual(await idsOf(world, 'secrets'), ['sec_kept', 'sec_recent']);
    assert.deepEqual(await idsOf(world, 'webhooks'), ['whk_kept', 'whk_recent']);
    assert.equal(await recordsOf(world).forget(NOW), 0);
  });

  it('the rows of what was deleted are removed however many they are', async () => {
    await using world = await openSandboxes();
    for (let index = 0; index < 250; index += 1) {
      await addSecret(world, `sec_${index}`, 1);
      await addProject(world, `prj_${index}`, 1);
    }
    assert.equal(await recordsOf(world).forget(NOW), 500);
  });

  it('the rows of what was deleted of a project stay as long as events, audit events, usage or anything else names it', async () => {
    await using world = await openSandboxes();
    const before = await idsOf(world, 'projects');
    await addProject(world, 'prj_audited', NOW - RETENTIONS.auditMs);
    for (const id of ['prj_gone', 'prj_used', 'prj_secret', 'prj_sandbox']) await addProject(world, id, 1);
    await addProject(world, 'prj_open', null);
    await addSecret(world, 'sec_kept', null, 'prj_secret');
    const hours = {
      sandbox_ms: 0,
      paused_ms: 0,
      cpu_ms: 1,
      memory_mb_ms: 0,
      disk_mb_ms: 0,
      egress_bytes: 0,
      ingress_bytes: 0,
    };
    const counts = { runs: 0, commands: 0, workspace_runs: 0, artifact_bytes: 0 };
    const used = { org_id: ORG, hour: 0, project_id: 'prj_used', ...hours, ...counts };
    await world.db.insertInto('usage_hours').values(used).execute();
    const sandbox = await world.createReady();
    await world.kill(sandbox);
    await world.db.updateTable('sandboxes').set({ project_id: 'prj_sandbox' }).where('id', '=', sandbox).execute();
    await recordsOf(world).forget(NOW);
    const left = (await idsOf(world, 'projects')).filter((id) => !before.includes(id));
    assert.deepEqual(left, ['prj_audited', 'prj_open', 'prj_sandbox', 'prj_secret', 'prj_used']);
    await recordsOf(world).forget(NOW + 1);
    assert.equal((await idsOf(world, 'projects')).includes('prj_audited'), false);
  });
});
