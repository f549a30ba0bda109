import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';

/**
 * Drops what this server keeps in memory for sandboxes that have ended: clients of their agents, and activity. The server
 * that ends a sandbox drops it at once. The other servers drop it here, in their next pass.
 */
export class ForgetEnded {
  readonly #connections: Pick<AgentConnections, 'instances' | 'close'>;
  readonly #executions: Pick<Executions, 'known' | 'isRunning' | 'forget'>;

  constructor(
    connections: Pick<AgentConnections, 'instances' | 'close'>,
    executions: Pick<Executions, 'known' | 'isRunning' | 'forget'>,
  ) {
    this.#connections = connections;
    this.#executions = executions;
  }

  /**
   * Notes what this server keeps now. The caller then reads the records that occupy a host, and passes them to the returned
   * function: a noted sandbox that is not among them has ended, because its record is older than what was noted.
   */
  begin(): (occupying: readonly SandboxRecord[]) => void {
    const [instances, active] = [this.#connections.instances(), this.#executions.known()];
    return (occupying) => {
      const generations = new Map<string, number>(occupying.map(({ id, generation }) => [id, generation]));
      for (const instance of instances) {
        if (generations.get(instance.sandboxId) !== instance.generation) this.#connections.close(instance);
      }
      for (const id of active) if (!generations.has(id) && !this.#executions.isRunning(id)) this.#executions.forget(id);
    };
  }
}
