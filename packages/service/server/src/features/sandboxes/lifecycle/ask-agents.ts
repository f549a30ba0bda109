import type { SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Clock } from '../../../platform/base/clock.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';

/**
 * Time for which an agent that does not answer counts as busy. It is long enough not to miss a run of another server: a
 * server that cannot write its activity for this time has lost its lease and has ended its work.
 */
const SILENCE_MS = 30_000;

/** Asks agents whether anything runs in their sandboxes. An agent reports the work of all servers. */
export class AskAgents {
  readonly #connections: AgentConnections;
  readonly #clock: Clock;
  readonly #silentSince = new Map<SandboxId, number>();

  constructor(connections: AgentConnections, clock: Clock) {
    this.#connections = connections;
    this.#clock = clock;
  }

  /**
   * Returns whether anything runs in the sandbox. If the agent does not answer, returns true for a while, then false.
   */
  async isRunning({ id, instance }: SandboxRecord): Promise<boolean> {
    if (!instance) return false;
    const now = this.#clock.now();
    using limit = new Deadline(AGENT_LIMITS.askMs);
    try {
      const agent = await this.#connections.get(instance, limit.signal);
      const isRunning = await agent.isRunning(limit.signal);
      this.#silentSince.delete(id);
      return isRunning;
    } catch {
      const since = this.#silentSince.get(id) ?? now;
      this.#silentSince.set(id, since);
      return now - since < SILENCE_MS;
    }
  }

  /** Forgets sandboxes that are not among `records`. */
  keep(records: readonly SandboxRecord[]): void {
    if (this.#silentSince.size === 0) return;
    const kept = new Set(records.map(({ id }) => id));
    for (const id of this.#silentSince.keys()) if (!kept.has(id)) this.#silentSince.delete(id);
  }
}
