import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS, type OrgId, operations, type SecretId, type TemplateRecipe } from '@cloche/contract';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { credentialOf, DEFAULT_PROJECT, ORG } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { standStill } from '../../../../testing/stand-still.ts';
import { built, containing, createTemplate, rebuilt, recipe } from '../../../../testing/templates.ts';
import { RemoveVersions } from '../builds/remove-versions.ts';

const foreign = { credential: credentialOf('org_2' as OrgId) };

describe('a template of an organization', () => {
  it('a template of an organization has a slug that no other has, curated ones included, and that is free again when it is deleted', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'a', from: 'node' });
    for (const slug of ['a', 'node', 'python-node']) {
      await assert.rejects(createTemplate(world, { slug, from: 'node' }), { code: 'conflict' });
    }
    await createTemplate(world, { slug: 'a', from: 'node' }, foreign);
    await world.call(operations.deleteTemplate, { params: { template: 'a' } });
    await built(world, { slug: 'a', from: 'node' });
  });

  it('a template of an organization is seen and used by its organization alone', async () => {
    await using world = await openSandboxes();
    const { template, build } = await built(world, { slug: 'a', from: 'node' });
    const slugs = async (call = {}) => (await world.call(operations.listTemplates, call)).data.map(({ slug }) => slug);
    assert.deepEqual(await slugs(), ['a', 'node', 'python-node']);
    assert.deepEqual(await slugs(foreign), ['node', 'python-node']);
    for (const body of [{ template: 'a' }, { template: template.id }, { templateVersionId: build.templateVersionId }]) {
      await world.create(body);
      await assert.rejects(world.create(body, foreign), { code: 'not_found' });
    }
    const from = build.templateVersionId ?? '';
    await assert.rejects(createTemplate(world, { slug: 'b', from }, foreign), { code: 'not_found' });
  });

  it('a template of an organization goes back to an earlier version, and only to one of its own', async () => {
    await using world = await openSandboxes();
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    world.clock.advance(1);
    const second = await rebuilt(world, 'a', containing('two'));
    const { build: other } = await built(world, { slug: 'b', ...containing('three') });
    const versionOf = async () => (await world.create({ template: 'a' })).templateVersionId;
    assert.equal(await versionOf(), second.templateVersionId);
    const set = (defaultVersionId: string | undefined) =>
      world.call(operations.updateTemplate, { params: { template: 'a' }, body: { defaultVersionId } });
    const { template } = await set(first.templateVersionId);
    assert.equal(template.defaultVersionId, first.templateVersionId);
    assert.equal(template.latestVersionId, second.templateVersionId);
    assert.equal(await versionOf(), first.templateVersionId);
    for (const id of [other.templateVersionId, 'tplv_none']) {
      await assert.rejects(set(id), { code: 'invalid_request', message: /body\.defaultVersionId/ });
    }
  });

  it('a template of an organization is made from an image, unless a template has the name', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'debian', from: 'node' });
    const digest = `sha256:${'0a'.repeat(32)}`;
    const images: Readonly<Record<string, string | undefined>> = {
      debian: undefined,
      node: undefined,
      nothing: 'docker.io/library/nothing:latest',
      'debian:bookworm': 'docker.io/library/debian:bookworm',
      'library/debian': 'docker.io/library/debian:latest',
      [`node@${digest}`]: `docker.io/library/node@${digest}`,
      'localhost:5000/a': 'localhost:5000/a:latest',
    };
    for (const [index, [from, image]] of Object.entries(images).entries()) {
      const { build } = await createTemplate(world, { slug: `a${index}`, from });
      assert.deepEqual(
        build.steps.map(({ description }) => description),
        image === undefined ? [] : [`pull the image ${image}`],
      );
    }
    const { build } = await createTemplate(world, { slug: 'b', from: { image: 'debian' } });
    assert.equal(build.steps[0]?.description, 'pull the image docker.io/library/debian:latest');
    for (const from of ['node@sha256:0', 'a//b', 'https://registry.example/a', { image: 'A' }]) {
      const refused = { code: 'invalid_request', message: /body\.from.* must be a template, or an image as in/ };
      await assert.rejects(createTemplate(world, { slug: 'c', from }), refused);
    }
    for (const from of ['tpl_none', 'tplv_none']) {
      await assert.rejects(createTemplate(world, { slug: 'c', from }), { code: 'not_found' });
    }
    const credentials = { username: 'me', secretId: 'sec_none' as SecretId };
    const locked = createTemplate(world, { slug: 'c', from: { image: 'debian', credentials } });
    await assert.rejects(locked, { code: 'not_found', message: /secret/ });
  });

  it('a template of an organization cannot be deleted while another is made from it', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'base', from: 'node' });
    await built(world, { slug: 'made', from: 'base' });
    const remove = (template: string) => world.call(operations.deleteTemplate, { params: { template } });
    await assert.rejects(remove('base'), { code: 'conflict', details: { templates: 1 } });
    const { template } = await remove('made');
    assert.ok(template.deletedAt);
    assert.deepEqual((await remove(template.id)).template, template);
    await remove('base');
  });

  it('a template of an organization is changed by no key that is bound to projects, and curated ones by none', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'a', from: 'node' });
    const bound = { credential: credentialOf(ORG, [DEFAULT_PROJECT]) };
    await assert.rejects(createTemplate(world, { slug: 'b', from: 'node' }, bound), { code: 'forbidden' });
    for (const [template, call] of [
      ['a', bound],
      ['node', {}],
    ] as const) {
      const params = { template };
      await assert.rejects(world.call(operations.deleteTemplate, { ...call, params }), { code: 'forbidden' });
      await assert.rejects(world.call(operations.updateTemplate, { ...call, params, body: {} }), { code: 'forbidden' });
      const build = world.call(operations.createTemplateBuild, { ...call, params, body: { from: 'node' } });
      await assert.rejects(build, { code: 'forbidden' });
    }
    await world.create({ template: 'a' }, bound);
  });

  it('a template of an organization is created once for an idempotency key', async () => {
    await using world = await openSandboxes();
    const create = () => createTemplate(world, { slug: 'a', from: 'node' }, { idempotency: { recordId: 'idem_1' } });
    const [first, again] = [await create(), await create()];
    assert.deepEqual([again.template.id, again.build.id], [first.template.id, first.build.id]);
  });

  it('a template of an organization has quotas: how many there are, and how many builds have not ended, and at most some run at once', async () => {
    await using world = await openSandboxes();
    for (let index = 0; index < LIMITS.templateBuildsQueued; index += 1) {
      await createTemplate(world, { slug: `a${index}`, ...recipe('hang') });
    }
    const refused = { code: 'quota_exceeded', details: { quota: 'template_builds', limit: 20, used: 20 } };
    await assert.rejects(createTemplate(world, { slug: 'b', from: 'node' }), refused);
    await world.until(async () => world.driver.instances().length === LIMITS.templateBuildsAtOnce);
    const { template } = await createTemplate(world, { slug: 'a', ...recipe('print x') }, foreign);
    await world.until(async () => {
      const found = await world.call(operations.getTemplate, { params: { template: template.id }, ...foreign });
      return found.template.defaultVersionId !== undefined;
    });
    assert.equal(world.driver.instances().length, LIMITS.templateBuildsAtOnce);
  });

  it('a template of an organization is made from a recipe that is refused with every wrong field', async () => {
    await using world = await openSandboxes();
    const file = { path: '/a', content: 'x' };
    const cases: [Omit<TemplateRecipe, 'from'> & { from?: string }, RegExp][] = [
      [{ files: [{ path: 'a', content: 'x' }] }, /body\.files\.0\.path/],
      [{ files: [{ path: '/a' }] }, /body\.files\.0 needs exactly one/],
      [{ files: [{ ...file, artifactId: 'art_1' }] }, /artifact that this key can see/],
      [{ setup: [{ files: [{ ...file, encoding: 'base64', content: '*' }] }] }, /body\.setup\.0\.files\.0\.content/],
      [{ files: [{ ...file, content: 'x'.repeat(LIMITS.templateContentBytes + 1) }] }, /bytes of content together/],
      [{ setup: [{ run: 'x'.repeat(200_000) }] }, /body\.setup\.0\.run/],
      [{ env: { A: 'x'.repeat(40_000) } }, /body\.env/],
      [{ languages: ['python'] }, /body\.languages\.0/],
      [{ networkPolicy: { mode: 'allowlist' } }, /body\.networkPolicy/],
      [{ resources: { memoryMb: 1_000_000 } }, /body\.resources\.memoryMb/],
    ];
    for (const [wrong, message] of cases) {
      const body = { slug: 'a', from: 'node', ...wrong };
      await assert.rejects(createTemplate(world, body), { code: 'invalid_request', message });
    }
    await assert.rejects(createTemplate(world, { slug: 'a', from: 'tpl_none' }), { code: 'not_found' });
  });
});

describe('a server that resumes late', () => {
  it('a server that resumes late does not make the default of a version that another server has removed meanwhile', async () => {
    await using world = await openSandboxes();
    await using late = await world.beside('srv_2');
    const { build: first } = await built(world, { slug: 'a', ...containing('one') });
    const second = await rebuilt(world, 'a', containing('two'));
    const { reached, goOn } = standStill('after', late.server.core.customTemplates, 'findVersion');
    const body = { defaultVersionId: first.templateVersionId, description: 'back to one' };
    const changing = late.call(operations.updateTemplate, { params: { template: 'a' }, body });
    const refused = assert.rejects(changing, { code: 'invalid_request', message: /body\.defaultVersionId/ });
    await reached;
    world.clock.advance(1);
    assert.equal(
      await new RemoveVersions({ ...world, versions: world.driver, log: SILENT }).sweep(world.clock.now()),
      1,
    );
    goOn();
    await refused;
    const { template } = await world.call(operations.getTemplate, { params: { template: 'a' } });
    assert.deepEqual([template.defaultVersionId, template.description], [second.templateVersionId, '']);
    await world.createReady({ template: 'a' });
  });

  it('a server that resumes late creates no build of a template that another server has deleted meanwhile', async () => {
    await using world = await openSandboxes();
    await using late = await world.beside('srv_2');
    const { template } = await built(world, { slug: 'a', from: 'node' });
    const { reached, goOn } = standStill('after', late.server.core.customTemplates, 'find');
    const params = { template: template.id };
    const building = late.call(operations.createTemplateBuild, { params, body: recipe('print x') });
    const refused = assert.rejects(building, { code: 'not_found', message: /"a" is deleted/ });
    await reached;
    await world.call(operations.deleteTemplate, { params });
    goOn();
    await refused;
    assert.equal((await world.call(operations.listTemplateBuilds, { params })).data.length, 1);
  });
});
