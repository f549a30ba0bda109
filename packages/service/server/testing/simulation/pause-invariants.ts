/** Invariants of the pauses of a simulation. */
import type { WorkloadWorld } from './workload.ts';

export function watchPauses({ database, runtime, violate }: WorkloadWorld) {
  const instanceOf = (id: unknown, generation: unknown) =>
    runtime.instances().find((each) => each.sandboxId === id && each.generation === generation);

  return {
    committed() {
      const paused = database.read(
        "select id, generation from sandboxes where status = 'ready' and pause_state = 'paused'",
      );
      for (const { id, generation } of paused) {
        const instance = instanceOf(id, generation);
        if (instance && !instance.isFrozen) violate(`${id} is recorded as paused, and executes`);
      }
      const parked = database.read(
        "select id, disk_generation from sandboxes where status = 'ready' and pause_state in ('parked', 'booting')",
      );
      for (const { id, disk_generation: generation } of parked) {
        if (!runtime.kept.has(id, generation)) violate(`${id} is recorded as paused with its files, which are gone`);
      }
    },
    /** Returns the sandboxes that are still on their way into or out of a pause, or whose instance contradicts the record. */
    unrest(): string[] {
      const rows = database.read("select id, generation, pause_state from sandboxes where status = 'ready'");
      return rows.flatMap(({ id, generation, pause_state: state }) => {
        if (state === 'parked')
          return instanceOf(id, generation) ? [`sandbox ${id} is parked, and has an instance`] : [];
        if (state !== null && state !== 'paused') return [`sandbox ${id} is ${state}`];
        const instance = instanceOf(id, generation);
        const isFrozen = instance?.isFrozen === true;
        return !instance || isFrozen === (state === 'paused')
          ? []
          : [`sandbox ${id} is recorded as ${state ?? 'live'}, and is ${isFrozen ? 'frozen' : 'not frozen'}`];
      });
    },
  };
}
