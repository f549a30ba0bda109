import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS, operations } from '@cloche/contract';
import { CaptureError, LaunchError, type Versions } from '@cloche/runtime';
import { CompiledQuery, createQueryId, type PluginTransformQueryArgs, type RootOperationNode } from 'kysely';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { ORG } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { built, containing, createTemplate, endOf, rebuilt } from '../../../../testing/templates.ts';
import { DATABASE_KIND } from '../../../../testing/test-database.ts';
import { RemoveVersions } from './remove-versions.ts';

const DAY_MS = 86_400_000;

async function sweep(world: SandboxesWorld): Promise<number> {
  return new RemoveVersions({ ...world, versions: world.driver, log: SILENT }).sweep(world.clock.now() - DAY_MS);
}

/** Sweeps as another server whose requests to remove versions are `removeVersion`. */
function removing(world: SandboxesWorld, removeVersion: Versions['removeVersion']): Promise<number> {
  const versions = { capturedVersionRefs: () => world.driver.capturedVersionRefs(), removeVersion };
  return new RemoveVersions({ ...world, versions, log: SILENT }).sweep(world.clock.now() - DAY_MS);
}

/** Asserts that the host has the files of the default version. */
async function assertUsable(world: SandboxesWorld, template: string): Promise<void> {
  assert.equal((await world.get(await world.createReady({ template }))).status, 'ready');
}

async function versionsOf(world: SandboxesWorld, template: string): Promise<string[]> {
  const { data } = await world.call(operations.listTemplateVersions, { params: { template } });
  return data.map(({ id }) => id);
}

const skip = DATABASE_KIND === 'postgresql' && 'reads the plans of SQLite';
it('unused versions are found without a look at sandboxes of other versions', { skip }, async () => {
  await using world = await openSandboxes();
  const asked: RootOperationNode[] = [];
  const transformQuery = ({ node }: PluginTransformQueryArgs) => {
    asked.push(node);
    return node;
  };
  const db = world.db.withPlugin({ transformQuery, transformResult: async ({ result }) => result });
  await new RemoveVersions({ ...world, db, versions: world.driver, log: SILENT }).sweep(world.clock.now());
  const compiled = asked.map((node) => world.db.getExecutor().compileQuery(node, createQueryId()));
  const ofSandboxes = compiled.filter(({ sql }) => sql.includes('"sandboxes"'));
  assert.equal(ofSandboxes.length, 1);
  for (const { sql, parameters } of ofSandboxes) {
    const { rows } = await world.db.executeQuery(CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]));
    const reads = rows.map((row) => (row as { detail: string }).detail).filter((each) => each.includes(' sandboxes '));
    assert.equal(reads.length, 2);
    for (const read of reads) assert.match(read, /INDEX sandboxes_template_version \(template_version_id=\?/);
  }
});

describe('unused versions', () => {
  it('unused versions are removed from the host after their time, but not the default version', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    const second = await rebuilt(world, 'a', containing('two'));
    assert.equal(await sweep(world), 0);
    world.clock.advance(2 * DAY_MS);
    assert.equal(await sweep(world), 1);
    assert.deepEqual(await versionsOf(world, 'a'), [second.templateVersionId]);
    assert.equal(world.driver.captured.has(first.templateVersionId ?? ''), false);
    await assert.rejects(world.create({ templateVersionId: first.templateVersionId }), { code: 'not_found' });
    const again = await rebuilt(world, 'a', containing('one'));
    assert.equal(again.status, 'succeeded');
    await world.createReady({ template: 'a' });
  });

  it('unused versions stay while a sandbox runs on them and while another template is made from them', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    const { build: base } = await built(world, { slug: 'base', ...containing('base') });
    await built(world, { slug: 'made', from: 'base' });
    await rebuilt(world, 'a', containing('two'));
    await rebuilt(world, 'base', containing('base two'));
    const sandbox = await world.createReady({ templateVersionId: first.templateVersionId });
    world.clock.advance(2 * DAY_MS);
    assert.equal(await sweep(world), 0);
    assert.ok((await versionsOf(world, 'base')).includes(base.templateVersionId ?? ''));
    await world.kill(sandbox);
    world.clock.advance(2 * DAY_MS);
    assert.equal(await sweep(world), 1);
    assert.equal((await versionsOf(world, 'a')).includes(first.templateVersionId ?? ''), false);
  });

  it('unused versions are never listed without their files when the host does not answer, and their files go later', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    await rebuilt(world, 'a', containing('two'));
    world.clock.advance(2 * DAY_MS);
    const unanswered = removing(world, async (version) => {
      await world.driver.removeVersion(version);
      throw new LaunchError('unreachable', 'the answer is lost');
    });
    await assert.rejects(unanswered, { kind: 'unreachable' });
    assert.equal((await versionsOf(world, 'a')).includes(first.templateVersionId ?? ''), false);

    const { build: other } = await built(world, { slug: 'b', ...containing('three') });
    await world.call(operations.deleteTemplate, { params: { template: 'b' } });
    world.driver.isDown = true;
    await assert.rejects(sweep(world), { kind: 'unreachable' });
    world.driver.isDown = false;
    assert.equal(await sweep(world), 1);
    assert.equal(world.driver.captured.has(other.templateVersionId ?? ''), false);
  });

  it('unused versions of a deleted template go at once', async () => {
    await using world = await openSandboxes();
    const { template, build } = await built(world, { slug: 'a', ...containing('one') });
    await world.call(operations.deleteTemplate, { params: { template: 'a' } });
    await assert.rejects(world.create({ template: template.id }), { code: 'not_found' });
    assert.equal(await sweep(world), 1);
    assert.equal(world.driver.captured.has(build.templateVersionId ?? ''), false);
  });

  it('unused versions are removed from the host that a build made and could not add', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'a', ...containing('one') });
    const kept = [...world.driver.captured.keys()];
    await world.limits.setOrganization(ORG, { templateBytes: 0 });
    // All steps are cached, and another manifest makes another version.
    const { build } = await built(world, { slug: 'b', ...containing('one'), languages: ['javascript'] });
    assert.deepEqual([build.status, build.error?.code], ['failed', 'too_large'], JSON.stringify(build));
    assert.equal((await world.driver.capturedVersionRefs()).length, 2);
    world.clock.advance(2 * DAY_MS);
    world.driver.isDown = true;
    await assert.rejects(sweep(world), { kind: 'unreachable' });
    world.driver.isDown = false;
    assert.equal(await sweep(world), 1);
    assert.deepEqual([...world.driver.captured.keys()], kept);
    await assertUsable(world, 'a');
  });

  it('unused versions are removed later if the host refused at first, although the cached steps that named them are gone', async () => {
    await using world = await openSandboxes();
    world.driver.now = () => world.clock.now();
    await built(world, { slug: 'a', ...containing('one') });
    const kept = [...world.driver.captured.keys()];
    await world.limits.setOrganization(ORG, { templateBytes: 0 });
    await built(world, { slug: 'b', ...containing('one'), languages: ['javascript'] });
    assert.equal((await world.driver.capturedVersionRefs()).length, 2);
    world.clock.advance(2 * DAY_MS);
    const refused = removing(world, () => Promise.reject(new CaptureError('in_use', 'an instance of the pool has it')));
    assert.equal(await refused, 0);
    assert.equal(await sweep(world), 1);
    assert.deepEqual([...world.driver.captured.keys()], kept);
    await assertUsable(world, 'a');
  });

  it('unused versions that the database does not know stay until they are as old as any other that is removed', async () => {
    await using world = await openSandboxes();
    world.driver.now = () => world.clock.now();
    const { build } = await built(world, { slug: 'a', ...containing('one') });
    const from = build.templateVersionId ?? '';
    const { id } = await world.driver.deriveVersion({ from, purpose: 'version', manifest: { languages: ['node'] } });
    const isThere = () => world.driver.captured.has(id);
    assert.deepEqual([await sweep(world), isThere()], [0, true]);
    world.clock.advance(DAY_MS / 2);
    assert.deepEqual([await sweep(world), isThere()], [0, true]);
    world.clock.advance(DAY_MS);
    assert.deepEqual([await sweep(world), isThere()], [1, false]);
    await assertUsable(world, 'a');
  });

  it('unused versions keep their files if a build makes them again before a removal that was decided earlier', async () => {
    await using world = await openSandboxes();
    const { build } = await built(world, { slug: 'a', ...containing('one') });
    await world.call(operations.deleteTemplate, { params: { template: 'a' } });
    const [standsStill, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const late = removing(world, async (version) => {
      standsStill.resolve();
      await goesOn.promise;
      await world.driver.removeVersion(version);
    });
    await standsStill.promise;
    const { build: same } = await built(world, { slug: 'b', ...containing('one') });
    goesOn.resolve();
    assert.equal(await late, 0);
    assert.equal(same.templateVersionId, build.templateVersionId);
    await assertUsable(world, 'b');
  });

  it('unused versions keep their files while a build that has made them again is about to add them', async () => {
    await using world = await openSandboxes();
    world.driver.now = () => world.clock.now();
    const { build } = await built(world, { slug: 'a', ...containing('one') });
    await world.call(operations.deleteTemplate, { params: { template: 'a' } });
    const [standsStill, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const derive = world.driver.deriveVersion.bind(world.driver);
    world.driver.deriveVersion = async (request) => {
      const made = await derive(request);
      standsStill.resolve();
      await goesOn.promise;
      return made;
    };
    const { build: same } = await createTemplate(world, { slug: 'b', ...containing('one') });
    await standsStill.promise;
    const removed = await sweep(world);
    goesOn.resolve();
    assert.equal(removed, 0);
    const ended = await endOf(world, same);
    assert.deepEqual([ended.status, ended.templateVersionId], ['succeeded', build.templateVersionId]);
    await assertUsable(world, 'b');
  });

  it('unused versions that were made before any build that runs began do not wait for its end', async () => {
    await using world = await openSandboxes();
    const removedOf = async (slug: string, hostTime: number) => {
      world.driver.now = () => hostTime;
      await built(world, { slug, ...containing(slug) });
      await world.call(operations.deleteTemplate, { params: { template: slug } });
      const isCaptured = Promise.withResolvers<void>();
      world.driver.captureGate = isCaptured.promise;
      const { build } = await createTemplate(world, { slug: `${slug}-other`, ...containing(`${slug} other`) });
      const removed = await sweep(world);
      isCaptured.resolve();
      await endOf(world, build);
      world.driver.captureGate = undefined;
      return removed;
    };
    const now = world.clock.now();
    assert.equal(await removedOf('early', now - 2 * LIMITS.templateBuildMs - 1_000), 1);
    assert.equal(await removedOf('late', now - 2 * LIMITS.templateBuildMs + 1_000), 0);
  });

  it('unused versions are made again by a build that finds them finished, so that no removal that was decided earlier takes their files', async () => {
    await using world = await openSandboxes();
    const { build } = await built(world, { slug: 'a', ...containing('one') });
    await rebuilt(world, 'a', containing('two'));
    const id = build.templateVersionId ?? '';
    const before = world.driver.captured.get(id);
    const again = await rebuilt(world, 'a', containing('one'));
    assert.deepEqual([again.templateVersionId, again.steps.map(({ status }) => status)], [id, ['cached']]);
    await world.driver.removeVersion({ id, madeAt: before?.madeAt ?? 0 }).catch(() => undefined);
    await assertUsable(world, 'a');

    world.driver.captured.delete(id);
    assert.equal((await rebuilt(world, 'a', containing('one'))).templateVersionId, id);
    await assertUsable(world, 'a');
  });
});
