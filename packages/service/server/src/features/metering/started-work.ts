import type { SandboxId } from '@cloche/contract';
import type { UsageOwner } from './hour-sums.ts';

export interface Started {
  readonly owner: UsageOwner;
  runs: number;
  commands: number;
}

/**
 * Counts the runs and commands that this server starts, in memory, so that a run waits for no query. The roll-up takes
 * the counts; a server that is killed loses those since the last roll-up.
 */
export class StartedWork {
  readonly #counts = new Map<SandboxId, Started>();

  count(sandbox: UsageOwner & { readonly id: SandboxId }, what: 'runs' | 'commands'): void {
    const known = this.#counts.get(sandbox.id);
    if (known) {
      known[what] += 1;
      return;
    }
    const { orgId, projectId } = sandbox;
    this.#counts.set(sandbox.id, { owner: { orgId, projectId }, runs: 0, commands: 0, [what]: 1 });
  }

  /** Returns the sandboxes that have counts. */
  sandboxes(): SandboxId[] {
    return [...this.#counts.keys()];
  }

  /** Removes the counts of a sandbox and returns them. The caller writes them, or gives them back. */
  take(id: SandboxId): Started | undefined {
    const started = this.#counts.get(id);
    this.#counts.delete(id);
    return started;
  }

  giveBack(id: SandboxId, started: Started | undefined): void {
    if (!started) return;
    const since = this.#counts.get(id);
    this.#counts.set(id, {
      owner: started.owner,
      runs: started.runs + (since?.runs ?? 0),
      commands: started.commands + (since?.commands ?? 0),
    });
  }
}
