import { Deadline } from '@cloche/node-support';
import type { ReconcileReport } from '@cloche/protocol';
import { AgentError, type Instance, type Instances, LaunchError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Logger } from 'pino';
import { UNAUDITED } from '../../../platform/call/call.ts';
import type { PauseMoves } from '../../pauses/pause-moves.ts';
import { allows, type SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../../sandbox-status/status-facts.ts';
import type { AbandonedLaunches } from './abandoned-launches.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';
import type { ForgetEnded } from './forget-ended.ts';

export interface ReconcilerDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: Instances;
  readonly abandonedLaunches: Pick<AbandonedLaunches, 'takeOverOf'>;
  readonly pauseMoves: Pick<PauseMoves, 'settleOf' | 'thawStray' | 'freezeStray' | 'lose'>;
  readonly destroySandbox: Pick<DestroySandbox, 'destroy'>;
  readonly forgetEnded: Pick<ForgetEnded, 'begin'>;
  readonly log: Logger;
  /** Whether a sandbox ends when its agent does not answer this server. False if another server may reach it. */
  readonly endsSilentSandboxes: boolean;
  /** Longest wait for the answer of an agent. Default: `AGENT_LIMITS.probeMs`. */
  readonly probeMs?: number;
}

/**
 * Repairs differences between records and instances. Each suspected difference is confirmed by a second read of the
 * other side, so that work in progress is not mistaken for an orphan. A sandbox counts as lost only if the host of its
 * instance reports so; a host that does not answer ends no sandbox. Whether a pending launch is abandoned depends only
 * on whether its server is alive.
 */
export class Reconciler {
  readonly #deps: ReconcilerDeps;

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
  }

  /** Runs one pass. Rejects when no place answers; the next pass completes an interrupted one. */
  async reconcile(): Promise<ReconcileReport> {
    const { sandboxes, forgetEnded } = this.#deps;
    const instances = await this.#listInstances();
    const forgetOthers = forgetEnded.begin();
    const records = await sandboxes.listThat('holdsInstance');
    forgetOthers(records);
    const ended = await this.#mendRecords(records, instances);
    await this.#alignFreezes(records, instances);
    const removed = await this.#removeOrphans(instances);
    return { instancesRemoved: removed, sandboxesEnded: ended };
  }

  /**
   * Checks a sandbox whose connection broke or that did not wake, and destroys it if its instance and its files are lost.
   * Returns its current record. Rejects when the place of the instance does not answer.
   */
  async check(id: string): Promise<SandboxRecord | undefined> {
    const { sandboxes, pauseMoves, destroySandbox } = this.#deps;
    const record = await sandboxes.find(id);
    if (!record?.instance || !factsOf(record).isLaunched) return record;
    // The agent of a paused sandbox does not answer.
    const mayBeSilent = factsOf(record).needsWake;
    const isLost = await this.#isLost(record);
    if (!isLost && (mayBeSilent || (await this.#answers(record.instance)))) return record;
    if (await pauseMoves.lose(record)) return sandboxes.find(id);
    const stillLost = (seen: SandboxRecord) => factsOf(seen).isLaunched && seen.pauseEpoch === record.pauseEpoch;
    return destroySandbox.destroy(UNAUDITED, record.id, 'platform_cleanup', stillLost);
  }

  /** Returns the instances of all places that answer. Rejects with the fault of a place if none does. */
  async #listInstances(): Promise<readonly Instance[]> {
    const listings = await this.#deps.driver.list();
    const unknown = listings.flatMap((listing) => ('unknown' in listing ? [listing] : []));
    if (unknown[0] && unknown.length === listings.length) throw unknown[0].unknown;
    for (const { place, unknown: err } of unknown) this.#deps.log.warn({ err, place }, 'a place does not answer');
    return listings.flatMap((listing) => ('instances' in listing ? listing.instances : []));
  }

  /** Returns whether an instance's place reports that it is gone. Rejects when the place does not answer. */
  async #isLost({ instance }: SandboxRecord): Promise<boolean> {
    if (!instance) return true;
    using limit = new Deadline(AGENT_LIMITS.probeMs);
    return (await this.#deps.driver.find(instance, limit.signal)) === undefined;
  }

  /**
   * Returns whether the agent answers, in any version of its protocol. Uses a new connection, because active runs use
   * the others. Rejects when the place of the instance does not answer.
   *
   * Unless `endsSilentSandboxes`, an agent that does not answer within `probeMs` counts as answering. Its sandbox then ends
   * when its place reports that the instance is gone, or when its TTL is over.
   */
  async #answers(instance: Instance): Promise<boolean> {
    const { endsSilentSandboxes, probeMs = AGENT_LIMITS.probeMs } = this.#deps;
    using limit = new Deadline(probeMs);
    try {
      const client = await this.#deps.driver.connect(instance, limit.signal);
      await client.close();
      return true;
    } catch (error) {
      if (error instanceof LaunchError) throw error;
      if (limit.signal.aborted) return !endsSilentSandboxes;
      return error instanceof AgentError && error.kind === 'incompatible';
    }
  }

  async #mendRecords(records: readonly SandboxRecord[], instances: readonly Instance[]): Promise<number> {
    const { abandonedLaunches, pauseMoves, destroySandbox } = this.#deps;
    await abandonedLaunches.takeOverOf(records);
    await pauseMoves.settleOf(records);
    let ended = 0;
    const suspects: SandboxRecord[] = [];
    for (const record of records) {
      if (allows('destroy', record.status)) {
        const end = () => destroySandbox.destroy(UNAUDITED, record.id, record.endingReason ?? 'platform_cleanup');
        if (await this.#attempt(record.id, end)) ended += 1;
      } else if (factsOf(record).isLaunched && !hasInstance(instances, record)) suspects.push(record);
    }
    for (const record of suspects) if (await this.#attempt(record.id, () => this.#endIfLost(record))) ended += 1;
    return ended;
  }

  /** Its instance was launched before its place is asked here, so one that the place does not have is lost. */
  async #endIfLost(record: SandboxRecord): Promise<boolean> {
    const { pauseMoves, destroySandbox, log } = this.#deps;
    if (!(await this.#isLost(record)) || (await pauseMoves.lose(record))) return false;
    log.warn({ sandboxId: record.id, generation: record.generation }, 'an instance was lost');
    await destroySandbox.destroy(UNAUDITED, record.id, 'platform_cleanup', (seen) => factsOf(seen).isLaunched);
    return true;
  }

  /** Thaws and freezes instances whose records say so. */
  async #alignFreezes(records: readonly SandboxRecord[], instances: readonly Instance[]): Promise<void> {
    const { sandboxes, pauseMoves, log } = this.#deps;
    const paused: ReadonlySet<string> = new Set(
      records.filter((record) => stateOf(record) === 'paused').map(({ id }) => id),
    );
    const differing = instances.filter(({ sandboxId, isFrozen = false }) => isFrozen !== paused.has(sandboxId));
    for (const { sandboxId, generation, isFrozen } of differing) {
      const record = await sandboxes.find(sandboxId);
      if (record?.generation !== generation) continue;
      if (isFrozen && factsOf(record).isReady) {
        log.warn({ sandboxId, generation }, 'an instance is frozen although its sandbox is not paused');
        await this.#attempt(sandboxId, () => pauseMoves.thawStray(record));
      } else if (!isFrozen && stateOf(record) === 'paused') {
        log.warn({ sandboxId, generation }, 'an instance goes on although its sandbox is paused');
        await this.#attempt(sandboxId, () => pauseMoves.freezeStray(record));
      }
    }
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
      if (record && factsOf(record).holdsInstance && record.generation <= generation) continue;
      log.warn({ sandboxId, generation }, 'an instance without a live record is removed');
      if (await this.#attempt(sandboxId, () => driver.stop(sandboxId, generation))) removed += 1;
    }
    return removed;
  }

  /**
   * Runs `act` and returns whether it succeeded and did something. A failure is logged and left to the next pass, so it
   * does not block other repairs.
   */
  async #attempt(sandboxId: string, act: () => Promise<unknown>): Promise<boolean> {
    try {
      return (await act()) !== false;
    } catch (error) {
      this.#deps.log.warn({ err: error, sandboxId }, 'a sandbox could not be repaired yet');
      return false;
    }
  }
}

function hasInstance(instances: readonly Instance[], record: SandboxRecord): boolean {
  return instances.some(({ sandboxId, generation }) => sandboxId === record.id && generation === record.generation);
}
