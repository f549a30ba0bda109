/** Clients that build templates, cancel some builds, and look how they end. */
import { operations } from '@cloche/contract';
import { composeTemplates } from '../../../src/compose/compose-templates.ts';
import { watchBuilds } from '../build-invariants.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

export function openTemplateBuilds(world: WorkloadWorld): Workload {
  const invariants = watchBuilds(world);
  return {
    ...invariants,
    compose(parts) {
      const { routes, start } = composeTemplates({
        ...parts,
        // No recipe of a simulation has artifacts.
        artifacts: { find: async () => undefined },
        contents: { read: () => Promise.reject(new Error('no content')) },
      });
      return { routes, start };
    },
    async work(clients) {
      const { random } = clients;
      await clients.begin();
      const lines = Array.from({ length: 1 + random.below(2) }, () => `sleep ${random.pick([0, 50, 1_500, 6_000])}`);
      const body = { slug: clients.nextKey().replace('_', '-'), from: 'node', setup: lines.map((run) => ({ run })) };
      const created = await clients.insist({ operation: operations.createTemplate, body, key: clients.nextKey() });
      if (created.code !== undefined) return;
      const { build } = JSON.parse(created.body);
      const params = { template: build.templateId, buildId: build.id };
      const isCanceled = random.chance(0.25);
      if (isCanceled) {
        await clients.think();
        await clients.insist({ operation: operations.cancelTemplateBuild, params, key: clients.nextKey() });
      }
      for (;;) {
        const read = await clients.insist({
          operation: operations.getTemplateBuild,
          params,
          query: { waitMs: 10_000 },
        });
        if (read.code !== undefined) return;
        const { status, error } = JSON.parse(read.body).build;
        if (status === 'queued' || status === 'running') continue;
        // After several failures of the database, for example.
        const hasGivenUp = status === 'failed' && error.code === 'internal';
        if ((status === 'failed' && !hasGivenUp) || (status === 'canceled' && !isCanceled)) {
          world.violate(`${build.id} has ${status}: ${error?.message}`);
        }
        return;
      }
    },
  };
}
