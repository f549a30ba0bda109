/** Clients that create sandboxes, run code in them and end them. */
import { operations } from '@cloche/contract';
import type { Clients } from '../clients.ts';
import type { Workload } from '../workload.ts';

const RUN_MS = 40_000;

export function openCodeRuns(): Workload {
  return { work: useSandboxes };
}

/** Uses some sandboxes, one after the other. */
export async function useSandboxes(clients: Clients): Promise<void> {
  for (let left = 1 + clients.random.below(2); left > 0; left -= 1) await useSandbox(clients);
}

async function useSandbox(clients: Clients): Promise<void> {
  const { random } = clients;
  await clients.begin();
  const body = {
    ttlMs: random.pick([12_000, 60_000, 120_000]),
    ...(random.chance(0.35) ? { idleTimeoutMs: random.pick([1_000, 3_000]) } : {}),
  };
  const sandboxId = await clients.createSandbox(body);
  if (sandboxId === undefined) return;
  const params = { sandboxId };
  const runs = random.below(3);
  for (let index = 0; index < runs; index += 1) {
    const code = `sleep ${random.pick([0, 50, 1_500, 14_000])}\nprint done`;
    const run = { operation: operations.runCode, params, body: { code, language: 'python', timeoutMs: RUN_MS } };
    const answer = await clients.insist({ ...run, key: clients.nextKey() });
    if (answer.status !== 200) return;
    if (random.chance(0.3)) await clients.think();
  }
  if (random.chance(0.5)) await clients.killSandbox(sandboxId);
}
