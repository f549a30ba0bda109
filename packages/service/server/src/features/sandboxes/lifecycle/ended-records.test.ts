import assert from 'node:assert/strict';
import { it } from 'node:test';
import { operations } from '@cloche/contract';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { DEFAULT_PROJECT, ORG } from '../../../../testing/seeded-organizations.ts';

const DAY_MS = 86_400_000;

it('a sandbox that has ended can be looked up for its time, and then leaves no record behind', async () => {
  await using world = await openSandboxes({ recordRetentionMs: 30 * DAY_MS });
  const ended = await world.createReady();
  await world.run(ended, '1');
  await world.call(operations.killSandbox, { params: { sandboxId: ended } });
  world.clock.advance(29 * DAY_MS);
  await world.crash();
  assert.equal((await world.get(ended)).status, 'destroyed');

  const younger = await world.createReady();
  await world.call(operations.killSandbox, { params: { sandboxId: younger } });
  const live = await world.createReady();
  world.clock.advance(2 * DAY_MS);
  await world.db
    .updateTable('sandboxes')
    .set({ expires_at: world.clock.now() + DAY_MS })
    .where('id', '=', live)
    .execute();
  await world.crash();
  await world.until(async () => (await world.db.selectFrom('sandboxes').select('id').execute()).length === 2);
  await assert.rejects(world.get(ended), { code: 'not_found' });
  assert.equal((await world.get(younger)).status, 'destroyed');
  assert.equal((await world.get(live)).status, 'ready');
  assert.deepEqual(
    await world.db.selectFrom('code_contexts').select('id').where('sandbox_id', '=', ended).execute(),
    [],
  );
});

it('a sandbox that artifacts came from is kept', async () => {
  await using world = await openSandboxes({ recordRetentionMs: DAY_MS });
  const ids = await Promise.all(Array.from({ length: 120 }, () => world.createReady()));
  for (const sandboxId of ids) await world.call(operations.killSandbox, { params: { sandboxId } });
  const [kept] = ids;
  assert.ok(kept);
  const artifact = { id: 'art_1', org_id: ORG, project_id: DEFAULT_PROJECT, sandbox_id: kept, name: 'a', path: null };
  const content = { content_type: 'text/plain', size_bytes: 1, sha256: 'x', metadata: '{}', created_at: 0 };
  await world.db
    .insertInto('artifacts')
    .values({ ...artifact, ...content })
    .execute();
  world.clock.advance(2 * DAY_MS);
  await world.crash();
  await world.until(async () => (await world.db.selectFrom('sandboxes').select('id').execute()).length === 1);
  assert.equal((await world.get(kept)).status, 'destroyed');
});
