import { Deadline } from '@cloche/node-support';
import type { ReconcileReport } from '@cloche/protocol';
import type { Logger } from 'pino';
import { AGENT_LIMITS } from '../../agent-client/agent-limits.ts';
import type { Instance, RuntimeDriver } from '../../driver/runtime-driver.ts';
import { isPending, OCCUPYING_STATUSES, type SandboxRecord } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import type { AbandonedLaunches } from './abandoned-launches.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';

export interface ReconcilerDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: RuntimeDriver;
  readonly abandonedLaunches: AbandonedLaunches;
  readonly destroySandbox: DestroySandbox;
  readonly log: Logger;
}

/**
 * Repairs differences between records and instances. Each suspected difference is confirmed by a second read of the
 * other side, so that work in flight is not mistaken for an orphan. Pending launches are judged by the life of their
 * server alone.
 */
export class Reconciler {
  readonly #deps: ReconcilerDeps;

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
  }

  /** Runs one pass. Rejects when the runtime does not answer; the next pass completes an interrupted one. */
  async reconcile(): Promise<ReconcileReport> {
    const { sandboxes, driver } = this.#deps;
    const instances = await driver.list();
    const records = await sandboxes.listByStatus(OCCUPYING_STATUSES);
    const ended = await this.#mendRecords(records, instances);
    const removed = await this.#removeOrphans(instances);
    return { instancesRemoved: removed, sandboxesEnded: ended };
  }

  /**
   * Checks a ready sandbox whose connection broke, and destroys it if its instance is lost. Returns its current record.
   */
  async check(id: string): Promise<SandboxRecord | undefined> {
    const { sandboxes, driver, destroySandbox } = this.#deps;
    const record = await sandboxes.find(id);
    if (record?.status !== 'ready' || !record.instance) return record;
    const listed = hasInstance(await driver.list(), record);
    if (listed && (await this.#answers(record.instance))) return record;
    return destroySandbox.destroy(record.id, 'platform_cleanup', ({ status }) => status === 'ready');
  }

  /** Returns whether the agent answers. Uses a new connection, because active runs use the others. */
  async #answers(instance: Instance): Promise<boolean> {
    using limit = new Deadline(AGENT_LIMITS.probeMs);
    try {
      const client = await this.#deps.driver.connect(instance, limit.signal);
      await client.close();
      return true;
    } catch {
      return false;
    }
  }

  async #mendRecords(records: readonly SandboxRecord[], instances: readonly Instance[]): Promise<number> {
    const { abandonedLaunches, destroySandbox, driver, log } = this.#deps;
    await abandonedLaunches.takeOverOf(records);
    let ended = 0;
    const suspects: SandboxRecord[] = [];
    for (const record of records) {
      if (record.status === 'expiring') {
        const end = () => destroySandbox.destroy(record.id, record.endingReason ?? 'platform_cleanup');
        if (await this.#attempt(record.id, end)) ended += 1;
      } else if (!isPending(record) && !hasInstance(instances, record)) suspects.push(record);
    }
    if (suspects.length === 0) return ended;
    // The suspects were `ready` before this second listing, so an instance missing from it is lost.
    const now = await driver.list();
    for (const record of suspects.filter((suspect) => !hasInstance(now, suspect))) {
      log.warn({ sandboxId: record.id, generation: record.generation }, 'an instance was lost');
      const end = () => destroySandbox.destroy(record.id, 'platform_cleanup', ({ status }) => status === 'ready');
      if (await this.#attempt(record.id, end)) ended += 1;
    }
    return ended;
  }

  /**
   * Stops instances without a live record. A record is inserted before its instance is launched, so such an instance
   * never gets a record later.
   */
  async #removeOrphans(instances: readonly Instance[]): Promise<number> {
    const { sandboxes, driver, log } = this.#deps;
    let removed = 0;
    for (const { sandboxId, generation } of instances) {
      const record = await sandboxes.find(sandboxId);
      const occupying = record && (OCCUPYING_STATUSES as readonly string[]).includes(record.status);
      if (occupying && record.generation <= generation) continue;
      log.warn({ sandboxId, generation }, 'an instance without a live record is removed');
      if (await this.#attempt(sandboxId, () => driver.stop(sandboxId, generation))) removed += 1;
    }
    return removed;
  }

  /**
   * Runs `act` and returns whether it succeeded. A failure is logged and left to the next pass, so it does not block
   * other repairs.
   */
  async #attempt(sandboxId: string, act: () => Promise<unknown>): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      this.#deps.log.warn({ err: error, sandboxId }, 'a sandbox could not be repaired yet');
      return false;
    }
  }
}

function hasInstance(instances: readonly Instance[], record: SandboxRecord): boolean {
  return instances.some(({ sandboxId, generation }) => sandboxId === record.id && generation === record.generation);
}
