/** Clients that start commands, in the background and not, and look how they end. */
import { operations } from '@cloche/contract';
import { composeCommands } from '../../../src/compose/compose-commands.ts';
import type { Clients } from '../clients.ts';
import { watchCommands } from '../command-invariants.ts';
import type { ServerParts } from '../server-parts.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

const COMMAND_MS = 40_000;
const TERMINAL_IDLE_MS = 60_000;

export function openCommands(world: WorkloadWorld): Workload {
  const invariants = watchCommands(world);
  return {
    ...invariants,
    compose(parts: ServerParts) {
      const { routes, start } = composeCommands({ ...parts, terminalIdleMs: TERMINAL_IDLE_MS });
      return { routes, start };
    },
    async work(clients) {
      await clients.begin();
      const sandboxId = await clients.createSandbox({ ttlMs: clients.random.pick([20_000, 60_000, 120_000]) });
      if (sandboxId === undefined) return;
      for (let left = 1 + clients.random.below(3); left > 0; left -= 1) {
        if (!(await useCommand(clients, sandboxId))) return;
        if (clients.random.chance(0.3)) await clients.think();
      }
      if (clients.random.chance(0.5)) await clients.killSandbox(sandboxId);
    },
  };

  /** Returns whether the sandbox still took the command. */
  async function useCommand(clients: Clients, sandboxId: string): Promise<boolean> {
    const { random } = clients;
    const exitCode = random.below(3);
    const background = random.chance(0.6);
    const command = ['sh', `sleep ${random.pick([0, 50, 1_500, 14_000])}; print done; exit ${exitCode}`];
    const body = { command, background, timeoutMs: COMMAND_MS };
    const key = clients.nextKey();
    const created = await clients.insist({ operation: operations.createCommand, params: { sandboxId }, body, key });
    if (created.code !== undefined) return false;
    let { command: seen } = JSON.parse(created.body);
    const params = { sandboxId, commandId: seen.id };
    const isKilled = background && random.chance(0.3);
    if (isKilled) {
      const kill = { operation: operations.killCommand, params, body: { signal: 'SIGTERM' }, key: clients.nextKey() };
      await clients.insist(kill);
    }
    while (seen.status === 'running') {
      const read = await clients.insist({ operation: operations.getCommand, params, query: { waitMs: 10_000 } });
      if (read.code !== undefined) return false;
      seen = JSON.parse(read.body).command;
    }
    // A command whose server ended before it started it has failed, and never runs.
    const isLost = seen.status === 'failed' && invariants.wasStarted(seen.id);
    if (isLost) world.violate(`${seen.id} was started, and has failed: ${seen.failureReason}`);
    if (seen.status === 'exited' && seen.exitCode !== exitCode)
      world.violate(`${seen.id} exited with ${seen.exitCode}`);
    const [row] = world.database.read('select status from sandboxes where id = ?', sandboxId);
    if (seen.status === 'killed' && !isKilled && row?.status === 'ready') world.violate(`${seen.id} was killed`);
    return true;
  }
}
