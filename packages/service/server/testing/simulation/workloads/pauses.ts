/** Clients that pause sandboxes and wake them again, by themselves and by what they run in them. */
import { operations } from '@cloche/contract';
import type { Clients } from '../clients.ts';
import { watchPauses } from '../pause-invariants.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

const RUN_MS = 40_000;
/** Answers to a pause or a wake for which another client of the sandbox, or its end, is the reason. */
const REFUSALS: ReadonlySet<string | undefined> = new Set([
  'conflict',
  'quota_exceeded',
  'sandbox_destroyed',
  'sandbox_failed',
  // A run whose connection broke while another client paused the sandbox.
  'sandbox_paused',
  'sandbox_ttl_exceeded',
]);

export function openPauses(world: WorkloadWorld): Workload {
  /** Sandboxes of all clients, so that one pauses what another uses. */
  const shared: string[] = [];
  return {
    ...watchPauses(world),
    async work(clients) {
      await clients.begin();
      const created = await clients.createSandbox({ ttlMs: clients.random.pick([12_000, 60_000, 120_000]) });
      if (created !== undefined) shared.push(created);
      for (let left = 2 + clients.random.below(4); left > 0; left -= 1) {
        const sandboxId = shared[clients.random.below(shared.length)];
        if (sandboxId !== undefined) await useSandbox(clients, sandboxId);
        if (clients.random.chance(0.3)) await clients.think();
      }
      if (created !== undefined && clients.random.chance(0.5)) await clients.killSandbox(created);
    },
  };

  async function useSandbox(clients: Clients, sandboxId: string): Promise<void> {
    const { random } = clients;
    const params = { sandboxId };
    const act = random.pick(['pause', 'pause', 'resume', 'run', 'run'] as const);
    const memory = random.pick([undefined, 'prefer', 'drop'] as const);
    const [operation, body] = {
      pause: [operations.pauseSandbox, { force: random.chance(0.5), ...(memory && { memory }) }] as const,
      resume: [operations.resumeSandbox, random.chance(0.2) ? { memory: 'drop' } : {}] as const,
      run: [
        operations.runCode,
        { code: `sleep ${random.pick([0, 50, 1_500])}\nprint done`, language: 'python', timeoutMs: RUN_MS },
      ] as const,
    }[act];
    const { status, code } = await clients.insist({ operation, params, body, key: clients.nextKey() });
    if (status !== 200 && !REFUSALS.has(code)) world.violate(`${act} of ${sandboxId}: ${code}`);
  }
}
