/** Clients that build templates, often with equal contents, cancel some builds, look how they end, and delete some templates. */
import { operations } from '@cloche/contract';
import { WITHOUT_VERSIONS } from '@cloche/runtime/without-parts';
import { composeTemplates } from '../../../src/compose/compose-templates.ts';
import { RemoveVersions } from '../../../src/features/templates/builds/remove-versions.ts';
import { Loop } from '../../../src/platform/base/loop.ts';
import { NO_SHARED_LAYERS } from '../../shared-layers.ts';
import { watchBuilds } from '../build-invariants.ts';
import type { Clients } from '../clients.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

/** Short, so that a simulation sees the removal of versions. */
const SWEEP_MS = 3_000;

export function openTemplateBuilds(world: WorkloadWorld): Workload {
  const invariants = watchBuilds(world);
  return {
    ...invariants,
    compose(parts) {
      const templates = composeTemplates({
        ...parts,
        defaultRegistry: 'docker.io',
        // No recipe of a simulation has an image.
        imageLayers: NO_SHARED_LAYERS,
        // No recipe of a simulation has artifacts.
        artifacts: { find: async () => undefined },
        contents: { read: () => Promise.reject(new Error('no content')) },
      });
      const removeVersions = new RemoveVersions({ ...parts, versions: parts.driver.versions ?? WITHOUT_VERSIONS });
      const sweep = () => removeVersions.sweep(0).then(() => SWEEP_MS);
      return {
        routes: templates.routes,
        async start() {
          await templates.start();
          new Loop('unused versions', sweep, SWEEP_MS, parts.log);
        },
      };
    },
    async work(clients) {
      await clients.begin();
      for (let left = 1 + clients.random.below(3); left > 0; left -= 1) {
        if (!(await useTemplate(clients, world))) return;
      }
    },
  };
}

/** Returns whether the template was built, or canceled. */
async function useTemplate(clients: Clients, world: WorkloadWorld): Promise<boolean> {
  const { random } = clients;
  const lines = Array.from({ length: 1 + random.below(2) }, () => `sleep ${random.pick([0, 50, 1_500, 6_000])}`);
  const body = { slug: clients.nextKey().replace('_', '-'), from: 'node', setup: lines.map((run) => ({ run })) };
  const created = await clients.insist({ operation: operations.createTemplate, body, key: clients.nextKey() });
  if (created.code !== undefined) return false;
  const { build } = JSON.parse(created.body);
  const params = { template: build.templateId, buildId: build.id };
  const isCanceled = random.chance(0.25);
  if (isCanceled) {
    await clients.think();
    await clients.insist({ operation: operations.cancelTemplateBuild, params, key: clients.nextKey() });
  }
  for (;;) {
    const query = { waitMs: 10_000 };
    const read = await clients.insist({ operation: operations.getTemplateBuild, params, query });
    if (read.code !== undefined) return false;
    const { status, error } = JSON.parse(read.body).build;
    if (status === 'queued' || status === 'running') continue;
    // After several failures of the database, for example.
    const hasGivenUp = status === 'failed' && error.code === 'internal';
    if ((status === 'failed' && !hasGivenUp) || (status === 'canceled' && !isCanceled)) {
      world.violate(`${build.id} has ${status}: ${error?.message}`);
    }
    break;
  }
  if (random.chance(0.3)) await clients.think();
  if (random.chance(0.7)) await clients.insist({ operation: operations.deleteTemplate, params });
  return true;
}
