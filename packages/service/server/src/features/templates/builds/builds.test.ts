import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS, type OrgId, operations, type TemplateBuild } from '@cloche/contract';
import type { LaunchSpec } from '@cloche/protocol';
import { LaunchError } from '@cloche/runtime';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { addOrganizations, credentialOf, ORG } from '../../../../testing/seeded-organizations.ts';
import {
  built,
  containing,
  createTemplate,
  endOf,
  followBuild,
  rebuilt,
  recipe,
} from '../../../../testing/templates.ts';

const LARGE_MB = 1024;

describe('a build', () => {
  it('a build makes a version that sandboxes can be created from at once, and leaves no sandbox', async () => {
    await using world = await openSandboxes();
    const { template, build } = await built(world, {
      slug: 'reports',
      from: 'node',
      files: [{ path: '/etc/reports.conf', content: 'plain' }],
      env: { COLOR: 'green' },
      resources: { memoryMb: 256 },
    });
    assert.equal(build.status, 'succeeded', JSON.stringify(build));
    assert.deepEqual(build.steps, [{ description: 'write /etc/reports.conf', status: 'succeeded' }]);
    await world.until(async () => world.driver.instances().length === 0);
    const sandbox = await world.create({ template: 'reports' });
    assert.equal(sandbox.templateVersionId, build.templateVersionId);
    assert.equal(sandbox.templateId, template.id);
    assert.equal(sandbox.resources.memoryMb, 256);
    await world.waitFor(sandbox.id, 'ready');
    const { files } = world.driver.agentOf(sandbox.id);
    const { body } = await files.read('/etc/reports.conf', {});
    assert.equal((await body.toArray()).join(''), 'plain');
    assert.equal(world.driver.captured.get(sandbox.templateVersionId)?.captured.manifest.env?.COLOR, 'green');
  });

  it('a build announces its version to the host before it succeeds, for a sandbox of its organization', async () => {
    await using world = await openSandboxes();
    const announced: { spec: LaunchSpec; owner: string; status: string | undefined }[] = [];
    world.driver.expectLaunch = async (spec, owner) => {
      const [build] = await world.db.selectFrom('template_builds').select('status').execute();
      announced.push({ spec, owner, status: build?.status });
    };
    const { build } = await built(world, { slug: 'a', ...containing('x'), resources: { memoryMb: 256 } });
    const sandbox = await world.createReady({ template: 'a' });
    const launched = world.driver.launches.find(({ sandboxId }) => sandboxId === sandbox);
    assert.deepEqual(announced, [{ spec: launched?.spec, owner: ORG, status: 'running' }]);
    assert.equal(launched?.hints.owner, ORG);
    assert.equal(build.status, 'succeeded');
  });

  it('a build succeeds although the host cannot launch its version ahead', async () => {
    await using world = await openSandboxes();
    world.driver.expectLaunch = () => Promise.reject(new LaunchError('failed', 'no such operation'));
    const { build } = await built(world, { slug: 'a', ...containing('x') });
    assert.equal(build.status, 'succeeded');
  });

  it('a build runs only the steps that have changed, and those after them', async () => {
    await using world = await openSandboxes();
    await built(world, { slug: 'a', ...recipe('print one', 'print two') });
    const build = await rebuilt(world, 'a', recipe('print one', 'print three', 'print four'));
    assert.deepEqual(
      build.steps.map(({ status }) => status),
      ['cached', 'succeeded', 'succeeded'],
    );
  });

  it('a build gives the version that exists for an unchanged recipe, without a sandbox', async () => {
    await using world = await openSandboxes();
    const first = await built(world, { slug: 'a', ...recipe('print one') });
    const launches = world.driver.launches.length;
    const again = await rebuilt(world, 'a', recipe('print one'));
    assert.equal(again.status, 'succeeded');
    assert.equal(again.templateVersionId, first.build.templateVersionId);
    assert.equal(world.driver.launches.length, launches);
    const versions = await world.call(operations.listTemplateVersions, { params: { template: 'a' } });
    assert.equal(versions.data.length, 1);
  });

  it('a build that fails leaves the version before in force, and says which step failed', async () => {
    await using world = await openSandboxes();
    const { template, build: first } = await built(world, { slug: 'a', ...recipe('print one') });
    const build = await rebuilt(world, 'a', recipe('print one', 'exit 3', 'print no'));
    assert.equal(build.status, 'failed');
    assert.equal(build.error?.code, 'step_failed');
    assert.equal(build.error?.step, 2);
    assert.match(build.error?.message ?? '', /exit code 3/);
    assert.deepEqual(
      build.steps.map(({ status }) => status),
      ['cached', 'failed', 'pending'],
    );
    const { template: now } = await world.call(operations.getTemplate, { params: { template: template.id } });
    assert.equal(now.defaultVersionId, first.templateVersionId);
    await world.until(async () => world.driver.instances().length === 0);
  });

  it('a build is canceled while it is queued and while it runs, and leaves no sandbox', async () => {
    await using world = await openSandboxes();
    const hanging = await Promise.all(
      ['a', 'b', 'c'].map((slug) => createTemplate(world, { slug, ...recipe('hang') })),
    );
    await world.until(async () => world.driver.instances().length === 2);
    for (const { template, build } of hanging.toReversed()) {
      const params = { template: template.id, buildId: build.id };
      const canceled = await world.call(operations.cancelTemplateBuild, { params });
      assert.equal(canceled.build.status, 'canceled');
    }
    await world.until(async () => world.driver.instances().length === 0);
    const [first] = hanging;
    assert.ok(first);
    const params = { template: first.template.id, buildId: first.build.id };
    assert.equal((await world.call(operations.cancelTemplateBuild, { params })).build.status, 'canceled');
  });

  it('a build goes on from its last step when the server was killed, and leaves no sandbox', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('print one', 'hang') });
    const params = { template: build.templateId, buildId: build.id };
    const step = async () =>
      (await world.call(operations.getTemplateBuild, { params })).build.steps.map((s) => s.status);
    await world.until(async () => (await step())[1] === 'running');
    await world.crash();
    await world.until(async () => (await step())[0] === 'cached' && (await step())[1] === 'running');
    await world.until(async () => world.driver.instances().length === 1);
    await world.call(operations.cancelTemplateBuild, { params });
    assert.equal((await endOf(world, build)).status, 'canceled');
    await world.until(async () => world.driver.instances().length === 0);
  });

  it('a build fails when its sandbox is destroyed', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('hang') });
    await world.until(async () => world.driver.instances().length === 1);
    const [instance] = world.driver.instances();
    await world.kill(instance?.sandboxId as `sbx_${string}`);
    const ended = await endOf(world, build);
    assert.equal(ended.status, 'failed');
    assert.equal(ended.error?.code, 'sandbox_lost');
  });

  it('a build has a log, which is read in pages and followed to its end', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('print one', 'warn two') });
    const events = await Array.fromAsync(await followBuild(world, build));
    const last = events.at(-1);
    assert.ok(last?.type === 'complete');
    assert.equal(last.data.status, 'succeeded');
    const entries = events.flatMap((event) => (event.type === 'log' ? [event.data] : []));
    assert.deepEqual(
      entries.filter(({ stream }) => stream !== 'system').map(({ step, stream, data }) => [step, stream, data]),
      [
        [1, 'stdout', 'one\n'],
        [2, 'stderr', 'two\n'],
      ],
    );
    assert.deepEqual(
      entries.map(({ seq }) => seq),
      entries.map((_, index) => index + 1),
    );
    const params = { template: 'a', buildId: build.id };
    const page = await world.call(operations.listTemplateBuildLogs, { params, query: { afterSeq: 1, limit: 2 } });
    assert.deepEqual(page.data, entries.slice(1, 3));
    assert.deepEqual([page.nextSeq, page.hasMore], [3, true]);
  });

  it('a build waits while a quota has no room for its sandbox', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    const sandbox = await world.createReady();
    const { build } = await createTemplate(world, { slug: 'a', ...containing('x') });
    await world.until(async () => (await logOf(world, build)).includes('The build waits'));
    await world.kill(sandbox);
    assert.equal((await endOf(world, build)).status, 'succeeded');
  });

  it('a build leaves its place to builds of other organizations while a quota has no room for its sandbox', async () => {
    await using world = await openSandboxes();
    for (const org of await addOrganizations(world.db, 3)) {
      await world.limits.setOrganization(org, { liveSandboxes: 0 });
      await waitWithTwoBuilds(world, org);
    }
    const { build } = await built(world, { slug: 'a', ...containing('x') });
    assert.equal(build.status, 'succeeded');
    assert.equal(world.driver.launches.length, 1, 'the other builds still wait');
  });

  it('a build leaves its place to builds of other organizations while no host has room for its sandbox', async () => {
    await using world = await openSandboxes();
    const launch = world.driver.launch.bind(world.driver);
    world.driver.launch = async (id, generation, spec, signal, hints) => {
      if (spec.resources.memoryBytes >= LARGE_MB * 1024 ** 2) throw new LaunchError('no_capacity', 'full');
      return launch(id, generation, spec, signal, hints);
    };
    for (const org of await addOrganizations(world.db, 3)) await waitWithTwoBuilds(world, org);
    const { build } = await built(world, { slug: 'a', ...containing('x') });
    assert.equal(build.status, 'succeeded');
  });

  it('a build waits while no host has room for its sandbox', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(new LaunchError('no_capacity', 'full'));
    const { build } = await createTemplate(world, { slug: 'a', ...containing('x') });
    assert.equal((await endOf(world, build)).status, 'succeeded');
    assert.equal((await logOf(world, build)).split('The build waits: no host has room').length, 2);
    assert.equal(world.driver.launches.length, 2);
  });

  it('a build fails with no_capacity when no host has had room until its time was over', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(...Array.from({ length: 100 }, () => new LaunchError('no_capacity', 'full')));
    const { build } = await createTemplate(world, { slug: 'a', ...containing('x') });
    await world.until(async () => (await logOf(world, build)).includes('The build waits'));
    world.clock.advance(LIMITS.templateBuildMs - 3000);
    await world.crash();
    const ended = await endOf(world, build);
    assert.deepEqual([ended.status, ended.error?.code], ['failed', 'no_capacity']);
    assert.match(ended.error?.message ?? '', /capacity/);
    assert.equal(world.driver.instances().length, 0);
  });

  it('a build fails when its version is larger than the quota of the organization', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { templateBytes: 10 });
    const { build } = await built(world, { slug: 'a', ...containing('more than ten bytes') });
    assert.deepEqual([build.status, build.error?.code], ['failed', 'too_large']);
    assert.deepEqual([...world.driver.captured], [], 'nothing that is too large was kept');
  });

  it('a build fails at the step with which its layers together are larger than the quota', async () => {
    await using world = await openSandboxes();
    const steps = { ...containing('x'.repeat(600)), setup: [{ run: 'print 2' }, { run: 'print 3' }] };
    await built(world, { slug: 'a', ...steps });
    const made = [...world.driver.captured.values()].find(({ captured }) => captured.purpose === 'version');
    const sizes = made?.captured.layers.map(({ bytes }) => bytes) ?? [];
    assert.equal(sizes.length, 3);
    const [largest, total] = [Math.max(...sizes), sizes.reduce((sum, bytes) => sum + bytes)];
    // Beside the first template, each layer has room alone, and all of them together have not.
    await world.limits.setOrganization(ORG, { templateBytes: total + Math.round((largest + total) / 2) });
    const { build } = await built(world, { slug: 'b', ...steps, env: { OTHER: 'yes' } });
    assert.deepEqual([build.status, build.error?.code, build.error?.step], ['failed', 'too_large', 3]);
  });

  it('a build is begun again when the host has lost what a step has made', async () => {
    await using world = await openSandboxes();
    const first = { from: 'node', files: [{ path: '/opt/a', content: 'a' }] };
    await built(world, { slug: 'a', ...first });
    world.driver.captured.clear();
    const body = { ...first, setup: [{ run: 'print b' }] };
    const { build } = await world.call(operations.createTemplateBuild, { params: { template: 'a' }, body });
    const params = { template: 'a', buildId: build.id };
    await world.until(async () => {
      // Each attempt waits for a time.
      world.clock.advance(100);
      return (await world.call(operations.getTemplateBuild, { params })).build.finishedAt !== undefined;
    });
    const again = await endOf(world, build);
    assert.equal(again.status, 'succeeded', JSON.stringify(again));
    assert.deepEqual(
      again.steps.map(({ status }) => status),
      ['succeeded', 'succeeded'],
    );
  });

  it('a build runs its steps again when the host has lost all that earlier builds made', async () => {
    await using world = await openSandboxes();
    const steps = recipe('print 1', 'print 2', 'print 3', 'print 4', 'print 5', 'print 6');
    await built(world, { slug: 'a', ...steps });
    world.driver.captured.clear();
    const again = await rebuilt(world, 'a', steps);
    assert.equal(again.status, 'succeeded', JSON.stringify(again));
    assert.deepEqual(
      again.steps.map(({ status }) => status),
      steps.setup?.map(() => 'succeeded'),
    );
    await world.createReady({ template: 'a' });
  });

  it('a build fails with conflict, and names what is gone, when the host loses the results of each attempt', async () => {
    await using world = await openSandboxes();
    world.driver.deriveVersion = ({ from }) => {
      world.driver.captured.delete(from);
      return Promise.reject(new LaunchError('template_not_found', `no template version ${from}`));
    };
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('print 1') });
    const params = { template: 'a', buildId: build.id };
    await world.until(async () => {
      // Each attempt waits for a time.
      world.clock.advance(100);
      return (await world.call(operations.getTemplateBuild, { params })).build.finishedAt !== undefined;
    });
    const { status, error } = await endOf(world, build);
    assert.deepEqual([status, error?.code], ['failed', 'conflict']);
    assert.match(error?.message ?? '', /tplv_.*Build again/);
  });

  it('a build runs a step again when the host has lost the version below it during the step', async () => {
    await using world = await openSandboxes();
    const capture = world.driver.capture.bind(world.driver);
    let isLost = false;
    world.driver.capture = async (name, request, signal) => {
      const version = world.driver.instances().find(({ sandboxId }) => sandboxId === name.sandboxId)?.templateVersionId;
      const captured = await capture(name, request, signal);
      if (isLost || !world.driver.captured.delete(version ?? '')) return captured;
      isLost = true;
      throw new LaunchError('template_not_found', `the version ${version} was removed`);
    };
    const { build } = await built(world, { slug: 'a', ...recipe('print 1', 'print 2') });
    assert.deepEqual([build.status, isLost], ['succeeded', true], JSON.stringify(build));
  });

  it('a build says what it lacks when the host has lost the version that its recipe starts from', async () => {
    await using world = await openSandboxes();
    const base = await built(world, { slug: 'base', ...containing('base') });
    world.driver.captured.clear();
    const { build } = await built(world, { slug: 'made', from: 'base', setup: [{ run: 'print 1' }] });
    assert.deepEqual([build.status, build.error?.code], ['failed', 'not_launched']);
    assert.match(build.error?.message ?? '', new RegExp(`${base.build.templateVersionId}.*Build its template again`));
  });

  it('a build that never ends fails after its time, which goes on while the service is restarted', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('hang') });
    await world.until(async () => world.driver.instances().length === 1);
    world.clock.advance(LIMITS.templateBuildMs - 200);
    await world.crash();
    const ended = await endOf(world, build);
    assert.deepEqual([ended.status, ended.error?.code], ['failed', 'timed_out']);
    await world.until(async () => world.driver.instances().length === 0);
  });
});

/** Starts as many builds as an organization may run, and waits until they wait for their sandboxes. */
async function waitWithTwoBuilds(world: SandboxesWorld, org: OrgId): Promise<void> {
  const credential = credentialOf(org);
  const resources = { memoryMb: LARGE_MB };
  for (const slug of ['a', 'b']) {
    const { build } = await createTemplate(world, { slug, ...containing(slug), resources }, { credential });
    await world.until(async () => (await logOf(world, build, credential)).includes('The build waits'));
  }
}

async function logOf(
  world: SandboxesWorld,
  { templateId, id }: TemplateBuild,
  credential = credentialOf(),
): Promise<string> {
  const params = { template: templateId, buildId: id };
  const { data } = await world.call(operations.listTemplateBuildLogs, { params, credential });
  return data.map((entry) => entry.data).join('');
}
