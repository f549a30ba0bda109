import type { DestroyedReason, SandboxId } from '@cloche/contract';
import type { Instances, InstanceUse } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Logger } from 'pino';
import { AppError, notFound } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Audited } from '../../../platform/call/call.ts';
import type { SandboxUsages } from '../../metering/sandbox-usages.ts';
import { outlivesHost } from '../../pauses/kept-disks.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import { allows, type SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { LaunchSandbox } from './launch-sandbox.ts';

export interface DestroySandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: Instances;
  readonly connections: AgentConnections;
  readonly executions: Executions;
  readonly launchSandbox: LaunchSandbox;
  readonly usages: SandboxUsages;
  /** Begins to remove the disks that are kept of a sandbox. Idempotent. */
  readonly removeDisks: (record: SandboxRecord) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Destroys sandboxes: records the intent, tears the instance down, records the result. */
export class DestroySandbox {
  readonly #deps: DestroySandboxDeps;
  readonly #underWay = new Map<SandboxId, Promise<SandboxRecord>>();

  constructor(deps: DestroySandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the destroyed record. Idempotent, and safe to interrupt: the next call, by a client or the reconciler,
   * resumes from the recorded intent. The first reason is kept.
   *
   * @param call has the audit event of a request for it; written with the intent, unless that is recorded already
   * @param stillDue checked again after each concurrent change; if false, the record is left alone and returned.
   * @throws AppError `unavailable` when the instance cannot be stopped now; the intent remains.
   */
  async destroy(
    call: Audited,
    id: SandboxId,
    reason: DestroyedReason,
    stillDue: (record: SandboxRecord) => boolean | Promise<boolean> = () => true,
  ): Promise<SandboxRecord> {
    for (;;) {
      const current = await this.#deps.sandboxes.find(id);
      if (!current) throw notFound('sandbox', id);
      if (allows('destroy', current.status)) return this.#finish(current);
      if (!allows('end', current.status) || !(await stillDue(current))) return current;
      const expiring = await this.#deps.sandboxes.transition(current, 'end', { endingReason: reason }, call);
      if (expiring) return this.#finish(expiring);
    }
  }

  /** Marks a sandbox as failed and stops its instance. If the stop fails, the reconciler removes the instance. */
  async fail(record: SandboxRecord, failureReason: string): Promise<void> {
    const { sandboxes, driver, executions, connections, usages, log } = this.#deps;
    const failed = await sandboxes.transition(record, 'fail', { failureReason });
    if (!failed) return;
    executions.cancelSandbox(record.id);
    executions.forget(record.id);
    if (record.instance) connections.close(record.instance);
    try {
      // Only the stop says what the instance used since the last count.
      await usages.end(failed, await driver.stop(record.id, record.generation));
    } catch (error) {
      log.warn({ err: error, sandboxId: record.id }, 'a failed instance could not be stopped yet');
    }
    this.#removeDisks(failed);
  }

  #removeDisks(ended: SandboxRecord): void {
    // Only pauses name disks, and the service those of sandboxes that outlive their hosts.
    if (ended.pauseEpoch > 0 || outlivesHost(ended)) this.#deps.removeDisks(ended);
  }

  #finish(expiring: SandboxRecord): Promise<SandboxRecord> {
    const underWay = this.#underWay.get(expiring.id);
    if (underWay) return underWay;
    const finishing = this.#tearDown(expiring).finally(() => this.#underWay.delete(expiring.id));
    this.#underWay.set(expiring.id, finishing);
    return finishing;
  }

  async #tearDown(expiring: SandboxRecord): Promise<SandboxRecord> {
    const { sandboxes, driver, executions, connections, launchSandbox, clock, log } = this.#deps;
    executions.cancelSandbox(expiring.id);
    await launchSandbox.abort(expiring.id);
    let use: InstanceUse | undefined;
    try {
      use = await driver.stop(expiring.id, expiring.generation);
    } catch (error) {
      log.warn({ err: error, sandboxId: expiring.id }, 'an instance could not be stopped yet');
      const message = `The sandbox "${expiring.id}" is being destroyed, but the host does not respond; the sandbox ends as soon as the host does.`;
      throw new AppError('unavailable', message, { cause: error, retryAfterSeconds: 1 });
    }
    if (expiring.instance) connections.close(expiring.instance);
    executions.forget(expiring.id);
    // The transition `end` always records a reason; the fallback satisfies the type.
    const destroyedReason = expiring.endingReason ?? 'platform_cleanup';
    const destroyed = await sandboxes.transition(expiring, 'destroy', {
      destroyedReason,
      destroyedAt: clock.now(),
      use,
    });
    // Another server has recorded the end meanwhile. It did not get the use, which the host reports once.
    if (!destroyed && use) await this.#deps.usages.end(expiring, use);
    this.#removeDisks(expiring);
    return destroyed ?? (await sandboxes.find(expiring.id)) ?? expiring;
  }
}
