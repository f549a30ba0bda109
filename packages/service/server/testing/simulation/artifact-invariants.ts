/** What always holds for the artifacts of a simulation. */
import type { SimulatedStore } from './simulated-store.ts';
import type { WorkloadWorld } from './workload.ts';

export function watchArtifacts({ database, time, violate }: WorkloadWorld, store: SimulatedStore) {
  const live = () => database.read('select id, sha256, expires_at from artifacts where deleted_at is null');
  const committed = () => {
    for (const { id, sha256 } of live()) {
      if (!store.canRead(String(sha256))) violate(`${id} has no content`);
    }
  };
  store.onRemoved = committed;

  return {
    committed,
    unrest(): string[] {
      const artifacts = live();
      const expired = artifacts.filter(({ expires_at }) => Number(expires_at) < time.now());
      const used = new Set(artifacts.map(({ sha256 }) => sha256));
      return [
        ...expired.map(({ id }) => `${id} has expired, and is kept`),
        ...[...store.contents.keys()].filter((name) => !used.has(name)).map((name) => `${name} is kept, and unused`),
        ...[...store.asides.values()].map(({ name }) => `${name} is set aside`),
      ];
    },
  };
}
