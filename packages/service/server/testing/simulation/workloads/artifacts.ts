/** Clients that export files from sandboxes, often with the same content, and delete the artifacts or let them expire. */
import { operations } from '@cloche/contract';
import { ArtifactContents } from '../../../src/features/artifacts/artifact-contents.ts';
import { SqlArtifactRepository } from '../../../src/features/artifacts/artifact-repository.ts';
import { artifactRoutes } from '../../../src/features/artifacts/artifact-routes.ts';
import { ArtifactService } from '../../../src/features/artifacts/artifact-service.ts';
import { ExportArtifact } from '../../../src/features/artifacts/export-artifact.ts';
import { KeepArtifact } from '../../../src/features/artifacts/keep-artifact.ts';
import { Loop } from '../../../src/platform/base/loop.ts';
import type { SignedLinks } from '../../../src/platform/base/signed-links.ts';
import { watchArtifacts } from '../artifact-invariants.ts';
import type { Clients } from '../clients.ts';
import type { Peer } from '../faults.ts';
import type { ServerParts } from '../server-parts.ts';
import { SimulatedFiles, simulatedStaging } from '../simulated-files.ts';
import { SimulatedStore } from '../simulated-store.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

const RETENTION_MS = 30_000;
/** Time between two looks for expired artifacts, and for contents without an artifact. */
const SWEEP_MS = 15_000;
/** Few, so that artifacts share their contents. */
const FILES = ['one', 'other'] as const;

export function openArtifacts(world: WorkloadWorld): Workload {
  const store = new SimulatedStore(world);
  return {
    ...watchArtifacts(world, store),
    compose: (parts, peer) => compose(parts, peer, world, store),
    async work(clients) {
      await clients.begin();
      const sandboxId = await clients.createSandbox({ ttlMs: clients.random.pick([60_000, 120_000]) });
      if (sandboxId === undefined) return;
      for (let left = 2 + clients.random.below(4); left > 0; left -= 1) {
        if (!(await useArtifact(clients, sandboxId))) return;
      }
    },
  };
}

/** Returns whether the sandbox still exported. */
async function useArtifact(clients: Clients, sandboxId: string): Promise<boolean> {
  const { random } = clients;
  const body = { path: `/${random.pick(FILES)}` };
  const request = { operation: operations.exportArtifact, params: { sandboxId }, body, key: clients.nextKey() };
  const exported = await clients.insist(request);
  if (exported.code !== undefined) return false;
  const params = { artifactId: JSON.parse(exported.body).artifact.id };
  if (random.chance(0.3)) await clients.think();
  if (random.chance(0.7)) {
    await clients.insist({ operation: operations.deleteArtifact, params });
  }
  return true;
}

function compose(parts: ServerParts, peer: Peer, { seams }: WorkloadWorld, shared: SimulatedStore) {
  const { db, clock, log, transactions, outbox, projects, sandboxes } = parts;
  const store = shared.openFor(peer);
  const artifacts = new SqlArtifactRepository(db, transactions, outbox);
  const contents = new ArtifactContents({ ...parts, locks: parts.contentLocks(transactions), store, artifacts });
  const settings = { url: '', stagingDir: '', maxBytes: 1_000, retentionMs: RETENTION_MS, publicUrl: undefined };
  const staging = simulatedStaging;
  const keepArtifact = new KeepArtifact({ ...parts, contents, artifacts, staging, settings });
  const service = new ArtifactService(artifacts, contents, projects, clock);
  const files = new SimulatedFiles(sandboxes, seams, peer);
  const exportArtifact = new ExportArtifact(sandboxes.access, files, artifacts, keepArtifact);
  // No client of a simulation makes links.
  const links = {} as SignedLinks;
  const repeat = (name: string, act: () => Promise<number>) =>
    new Loop(name, () => act().then(() => SWEEP_MS), SWEEP_MS, log);
  return {
    routes: artifactRoutes({ service, exportArtifact, contents, links, publicUrl: () => '', clock }),
    async start() {
      repeat('expire artifacts', () => service.expire());
      repeat('orphans', () => contents.removeOrphans());
    },
  };
}
