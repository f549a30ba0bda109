import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { openSandboxes, type SandboxesWorld, SILENT } from '../../../testing/sandboxes.ts';
import { built, containing, rebuilt } from '../../../testing/templates.ts';
import { RemoveVersions } from './remove-versions.ts';

const DAY_MS = 86_400_000;

async function sweep(world: SandboxesWorld): Promise<number> {
  return new RemoveVersions({ ...world, log: SILENT }).sweep(world.clock.now() - DAY_MS);
}

async function versionsOf(world: SandboxesWorld, template: string): Promise<string[]> {
  const { data } = await world.call(operations.listTemplateVersions, { params: { template } });
  return data.map(({ id }) => id);
}

describe('unused versions', () => {
  it('are removed from the host after their time, but not the default version', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    const second = await rebuilt(world, 'a', containing('two'));
    assert.equal(await sweep(world), 0);
    world.clock.advance(2 * DAY_MS);
    assert.equal(await sweep(world), 1);
    assert.deepEqual(await versionsOf(world, 'a'), [second.templateVersionId]);
    assert.equal(world.driver.versions.has(first.templateVersionId ?? ''), false);
    await assert.rejects(world.create({ templateVersionId: first.templateVersionId }), { code: 'not_found' });
    const again = await rebuilt(world, 'a', containing('one'));
    assert.equal(again.status, 'succeeded');
    await world.createReady({ template: 'a' });
  });

  it('stay while a sandbox runs on them and while another template is made from them', async () => {
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

  it('stay usable when the host does not answer, or refuses to remove them', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    await rebuilt(world, 'a', containing('two'));
    world.clock.advance(2 * DAY_MS);
    world.driver.isDown = true;
    await assert.rejects(sweep(world), { kind: 'unreachable' });
    world.driver.isDown = false;
    assert.ok((await versionsOf(world, 'a')).includes(first.templateVersionId ?? ''));
    assert.equal(await sweep(world), 1);
  });

  it('of a deleted template go at once', async () => {
    await using world = await openSandboxes();
    const { template, build } = await built(world, { slug: 'a', ...containing('one') });
    await world.call(operations.deleteTemplate, { params: { template: 'a' } });
    await assert.rejects(world.create({ template: template.id }), { code: 'not_found' });
    assert.equal(await sweep(world), 1);
    assert.equal(world.driver.versions.has(build.templateVersionId ?? ''), false);
  });
});
