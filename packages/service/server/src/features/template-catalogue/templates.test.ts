import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { templateIdOf } from './template.ts';

describe('templates', () => {
  it('templates are listed with their newest version', async () => {
    await using world = await openSandboxes();
    const { data, hasMore } = await world.call(operations.listTemplates);
    assert.equal(hasMore, false);
    assert.deepEqual(
      data.map(({ id, slug, languages, latestVersionId }) => ({ id, slug, languages, latestVersionId })),
      [
        {
          id: templateIdOf('node'),
          slug: 'node',
          languages: ['javascript', 'typescript'],
          latestVersionId: 'tplv_node1',
        },
        {
          id: templateIdOf('python-node'),
          slug: 'python-node',
          languages: ['python', 'javascript', 'typescript'],
          latestVersionId: 'tplv_pythonnode1',
        },
      ],
    );
  });

  it('templates are found by slug and by id, and are not found by another name', async () => {
    await using world = await openSandboxes();
    const get = (template: string) => world.call(operations.getTemplate, { params: { template } });
    assert.deepEqual(await get('node'), await get(templateIdOf('node')));
    for (const name of ['ruby', 'tpl_none', '']) await assert.rejects(get(name), { code: 'not_found' });
  });

  it('templates tell the digest and packages of their versions', async () => {
    await using world = await openSandboxes();
    const { data } = await world.call(operations.listTemplateVersions, { params: { template: 'node' } });
    assert.equal(data.length, 1);
    assert.deepEqual(data[0]?.packages, { apt: { git: '1:2.39' } });
    assert.equal(data[0]?.templateId, templateIdOf('node'));
    assert.equal(data[0]?.createdAt, '2026-01-01T00:00:00.000Z');
  });

  it('templates are remembered when the runtime does not answer, and those that it has no more cannot be used', async () => {
    await using world = await openSandboxes();
    world.driver.isDown = true;
    await world.crash();
    assert.equal((await world.call(operations.listTemplates)).data.length, 2);
    world.driver.manifests = world.driver.manifests.filter(({ slug }) => slug === 'node');
    world.driver.isDown = false;
    await world.crash();
    assert.equal((await world.call(operations.listTemplates)).data.length, 1);
    await assert.rejects(world.create({ templateVersionId: 'tplv_pythonnode1' }), { code: 'not_found' });
  });

  it('templates can be used as soon as the runtime has them, also on a server that has not looked since', async () => {
    await using world = await openSandboxes();
    const [first = assert.fail('no template')] = world.driver.manifests;
    const versions = ['tplv_new1', 'tplv_new2'].map((id) => ({ ...first, slug: 'new', id, version: id, digest: id }));
    world.driver.manifests = [...world.driver.manifests, ...versions];
    const bodies = [{ template: 'new' }, ...versions.map(({ id }) => ({ templateVersionId: id }))];
    for (const { templateSlug } of await Promise.all(bodies.map((body) => world.create(body)))) {
      assert.equal(templateSlug, 'new');
    }
  });

  it('templates are found, with the languages of their newest version, on a server that has not looked since', async () => {
    await using world = await openSandboxes();
    await using other = await world.beside('srv_2');
    const [node = assert.fail('no template')] = world.driver.manifests.filter(({ slug }) => slug === 'node');
    const newer = { ...node, id: 'tplv_node2', version: '2', digest: '2', builtAt: '2026-02-01T00:00:00.000Z' };
    const added = { ...node, slug: 'new', id: 'tplv_new1' };
    world.driver.manifests = [...world.driver.manifests, { ...newer, languages: ['javascript', 'python'] }, added];
    const id = await other.createReady({ templateVersionId: 'tplv_node2' });
    assert.match((await world.run(id, 'print x', { language: 'python' })).stdout, /x/);
    const { template } = await world.call(operations.getTemplate, { params: { template: 'new' } });
    assert.equal(template.slug, 'new');
  });

  it('templates that are unknown while the runtime does not answer are unavailable, because it may have them', async () => {
    await using world = await openSandboxes();
    world.driver.isDown = true;
    const body = { templateVersionId: 'tplv_new1' };
    await assert.rejects(world.create(body), { code: 'unavailable', retryAfterSeconds: 1 });
    world.driver.isDown = false;
    await assert.rejects(world.create(body), { code: 'not_found' });
  });
});
