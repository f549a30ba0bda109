import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId, type TemplateBuild } from '@cloche/contract';
import type { KyselyPlugin, PluginTransformQueryArgs, PluginTransformResultArgs } from 'kysely';
import { SETTINGS } from '../../../../testing/sandbox-settings.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { NO_SHARED_LAYERS } from '../../../../testing/shared-layers.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { createTemplate, endOf, recipe } from '../../../../testing/templates.ts';
import { composeTemplates } from '../../../compose/compose-templates.ts';
import { ProjectAccess } from '../../../platform/access/project-access.ts';
import { Changes } from '../../../platform/base/changes.ts';
import { SqlProjectRepository } from '../../../platform/tenancy/project-repository.ts';
import { BuildProgress } from './build-progress.ts';
import { BuildRepository } from './build-repository.ts';

/** Starts what a second server of the same database builds with. */
async function startSecondServer(world: SandboxesWorld, db = world.db): Promise<AsyncDisposable> {
  const other = composeTemplates({
    ...world,
    db,
    sandboxes: world.server.core,
    artifacts: world.artifacts,
    contents: { read: () => Promise.reject(new Error('no content is read')) },
    serverId: 'srv_2',
    settings: SETTINGS,
    projects: new ProjectAccess(new SqlProjectRepository(db)),
    defaultRegistry: 'docker.io',
    imageLayers: NO_SHARED_LAYERS,
    log: SILENT,
  });
  await other.start();
  return { [Symbol.asyncDispose]: () => other.stop() };
}

/** Lets the second server take a build over. */
async function takeFromFirst({ db }: SandboxesWorld, { id }: TemplateBuild): Promise<void> {
  await db.updateTable('template_builds').set({ claimed_by: 'srv_2:earlier' }).where('id', '=', id).execute();
}

/** Holds the answers of the first update that changes a row, and of all statements after it. */
class HeldAnswers implements KyselyPlugin {
  readonly #held = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<void>();
  /** Resolves when the first answer is held. */
  readonly held = this.#held.promise;
  readonly release = this.#released.resolve;
  #isHolding = false;

  transformQuery({ node }: PluginTransformQueryArgs) {
    return node;
  }

  async transformResult({ result }: PluginTransformResultArgs) {
    this.#isHolding ||= Boolean(result.numAffectedRows);
    if (this.#isHolding) {
      this.#held.resolve();
      await this.#released.promise;
    }
    return result;
  }
}

describe('a build of several servers', () => {
  it('a build of several servers has one builder, whichever of two servers with one database takes it', async () => {
    await using world = await openSandboxes();
    await using _ = await startSecondServer(world);
    const started = [];
    for (let index = 0; index < 8; index += 1) {
      started.push(await createTemplate(world, { slug: `a${index}`, ...recipe(`print ${index}`) }));
    }
    const ended = await Promise.all(started.map(({ build }) => endOf(world, build)));
    assert.deepEqual([...new Set(ended.map(({ status }) => status))], ['succeeded']);
    assert.equal(world.driver.launches.length, ended.length);
  });

  it('a build of several servers is not failed by a server that was paused while another one took it over and destroyed its sandbox', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('hang') });
    await world.until(async () => world.driver.instances().length === 1);
    const [before] = world.driver.instances();
    await takeFromFirst(world, build);
    await using _ = await startSecondServer(world);
    const params = { template: build.templateId, buildId: build.id };
    const status = async () => (await world.call(operations.getTemplateBuild, { params })).build.status;
    const isNew = () => world.driver.instances().some(({ sandboxId }) => sandboxId !== before?.sandboxId);
    await world.until(async () => isNew() || (await status()) !== 'running');
    assert.equal(await status(), 'running');
    await world.call(operations.cancelTemplateBuild, { params });
    assert.equal((await endOf(world, build)).status, 'canceled');
  });

  it('a build of several servers keeps its sandbox when a server resumes that was paused since its claim', async () => {
    await using world = await openSandboxes();
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('hang') });
    const instances = () => world.driver.instances();
    await world.until(() => instances().length === 1);
    const [before] = instances();
    const endClaim = () => world.db.updateTable('template_builds').set({ claimed_by: null }).execute();
    const answers = new HeldAnswers();
    await endClaim();
    {
      await using _ = await startSecondServer(world, world.db.withPlugin(answers));
      await answers.held;
      await endClaim();
      await world.until(() => instances().some(({ sandboxId }) => sandboxId !== before?.sandboxId));
      answers.release();
    }
    assert.equal(instances().length, 1);
    const params = { template: build.templateId, buildId: build.id };
    assert.equal((await world.call(operations.getTemplateBuild, { params })).build.status, 'running');
    await world.call(operations.cancelTemplateBuild, { params });
    await world.until(() => instances().length === 0);
  });

  it('a build of several servers has one sandbox when a server was paused before it created one, and another took the build over', async () => {
    await using world = await openSandboxes();
    const { createSandbox } = world.server.core;
    const create = createSandbox.create.bind(createSandbox);
    const goesOn = Promise.withResolvers<void>();
    let late: Promise<unknown> | undefined;
    createSandbox.create = (...request) => {
      if (late) return create(...request);
      const created = goesOn.promise.then(() => create(...request));
      late = created;
      return created;
    };
    const { build } = await createTemplate(world, { slug: 'a', ...recipe('hang') });
    await world.until(() => late !== undefined);
    await takeFromFirst(world, build);
    await using _ = await startSecondServer(world);
    await world.until(() => world.driver.instances().length === 1);
    goesOn.resolve();
    await assert.rejects(late ?? Promise.resolve(), { name: 'BuildEndedError' });
    assert.equal(world.driver.launches.length, 1);
    const builds = new BuildRepository(world.db, new Changes());
    // The second server writes nothing more while the step hangs.
    await world.until(async () => (await builds.findById(build.id))?.steps[0]?.status === 'running');
    const record = (await builds.findById(build.id)) ?? assert.fail();
    const ofFirst = new BuildProgress(builds, record, 'srv_1:earlier');
    for (const write of [
      () => ofFirst.set(0, 1, 'pending'),
      () => ofFirst.setSandbox('sbx_late' as SandboxId),
      () => ofFirst.beginLaunch(),
    ]) {
      await assert.rejects(write, { name: 'BuildEndedError' });
    }
    assert.deepEqual(await builds.findById(build.id), record);
    const params = { template: build.templateId, buildId: build.id };
    await world.call(operations.cancelTemplateBuild, { params });
    assert.equal((await endOf(world, build)).status, 'canceled');
    await world.until(() => world.driver.instances().length === 0);
  });
});
