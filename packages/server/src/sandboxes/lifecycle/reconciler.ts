import type { ReconcileReport } from '@cloche/protocol';
import type { Logger } from 'pino';
import { Deadline } from '../../base/deadline.ts';
import type { Instance, RuntimeDriver } from '../../driver/runtime-driver.ts';
import { isPending, OCCUPYING_STATUSES, type SandboxRecord } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';
import type { LaunchSandbox } from './launch-sandbox.ts';

/** How long an agent whose connection broke may take to answer again. */
const AGENT_ANSWER_MS = 10_000;

export interface ReconcilerDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: RuntimeDriver;
  readonly launches: LaunchSandbox;
  readonly destroySandbox: DestroySandbox;
  readonly log: Logger;
}

/**
 * Makes records and instances agree again. What looks wrong is looked at a second time, the other side first, so that
 * nothing in flight is mistaken for an orphan. One server owns the database: a launch that is not its own is a dead one's.
 */
export class Reconciler {
  readonly #deps: ReconcilerDeps;

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
  }

  /** One pass. Rejects when the runtime does not answer; a pass cut off halfway is finished by the next. */
  async reconcile(): Promise<ReconcileReport> {
    const { sandboxes, driver } = this.#deps;
    const instances = await driver.list();
    const records = await sandboxes.listByStatus(OCCUPYING_STATUSES);
    const ended = await this.#mendRecords(records, instances);
    const removed = await this.#removeOrphans(instances);
    return { instancesRemoved: removed, sandboxesEnded: ended };
  }

  /** The connection to a ready sandbox broke: finds out at once whether it is lost, and if so ends it. */
  async check(id: string): Promise<SandboxRecord | undefined> {
    const { sandboxes, driver, destroySandbox } = this.#deps;
    const record = await sandboxes.find(id);
    if (record?.status !== 'ready' || !record.instance) return record;
    const listed = hasInstance(await driver.list(), record);
    if (listed && (await this.#answers(record.instance))) return record;
    return destroySandbox.destroy(record.id, 'platform_cleanup', ({ status }) => status === 'ready');
  }

  /** Asked on a connection of its own: runs that go on use the others. */
  async #answers(instance: Instance): Promise<boolean> {
    using limit = new Deadline(AGENT_ANSWER_MS);
    try {
      const client = await this.#deps.driver.connect(instance, limit.signal);
      await client.close();
      return true;
    } catch {
      return false;
    }
  }

  async #mendRecords(records: readonly SandboxRecord[], instances: readonly Instance[]): Promise<number> {
    const { launches, destroySandbox, driver, log } = this.#deps;
    let ended = 0;
    const suspects: SandboxRecord[] = [];
    for (const record of records) {
      if (record.status === 'expiring') {
        const end = () => destroySandbox.destroy(record.id, record.endingReason ?? 'platform_cleanup');
        if (await this.#attempt(record.id, end)) ended += 1;
      } else if (isPending(record)) {
        if (!launches.isUnderWay(record.id)) await this.#attempt(record.id, () => launches.restart(record));
      } else if (!hasInstance(instances, record)) suspects.push(record);
    }
    if (suspects.length === 0) return ended;
    // These records were ready before this look, so whatever it does not show is lost.
    const now = await driver.list();
    for (const record of suspects.filter((suspect) => !hasInstance(now, suspect))) {
      log.warn({ sandboxId: record.id, generation: record.generation }, 'an instance was lost');
      const end = () => destroySandbox.destroy(record.id, 'platform_cleanup', ({ status }) => status === 'ready');
      if (await this.#attempt(record.id, end)) ended += 1;
    }
    return ended;
  }

  /** A record is there before its instance, so an instance whose record is not live now never has one. */
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

  /** One that cannot be mended now keeps no other from it; the next pass comes back to it. */
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
