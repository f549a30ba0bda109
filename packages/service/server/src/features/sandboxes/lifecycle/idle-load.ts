import type { SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { MAX_MEASURED_INSTANCES } from '@cloche/protocol';
import type { InstanceName, Metering } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';

const READ_MS = 5_000;
/** Time after the last use in which the first reading is taken, at most, so that a used sandbox costs few readings. */
const FIRST_READING_MS = 1_000;
/** Longest part of the time without use for which no reading needs to exist. */
const TOLERANCE_MS = 3_000;
const LEAST_STEP_MS = 500;
/** Readings of a sandbox that computes, in its time without use. */
const STEPS = 32;

/** Processor time that the instance had used at a moment. */
interface Reading {
  readonly at: number;
  readonly cpuMs: number;
}

interface Followed {
  readonly generation: number;
  readonly usedAt: number;
  readonly afterIdleMs: number;
  /** Oldest first. They begin no earlier than the last use. */
  readonly readings: Reading[];
}

export interface IdleLoadDeps {
  readonly metering: Pick<Metering, 'usesOf'>;
  /** A sandbox that uses more of a core, on average, is not idle. In percent. */
  readonly idleCpuPercent: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Measures whether the processes of sandboxes compute while no request uses them. A sandbox costs two readings of its
 * counter on the host: one after its last use, and one when its time without use is over. One that computes is read
 * from then on, until its average over that time is low.
 */
export class IdleLoad {
  readonly #deps: IdleLoadDeps;
  #followed = new Map<SandboxId, Followed>();
  #reading: Promise<void> | undefined;

  constructor(deps: IdleLoadDeps) {
    this.#deps = deps;
  }

  /** Whether counters are being read. */
  get isReading(): boolean {
    return this.#reading !== undefined;
  }

  /**
   * Follows the sandboxes and no others, and starts to read the counters that are needed.
   *
   * @param lastUse when the sandbox was last used; infinity while it is in use
   */
  follow(records: readonly SandboxRecord[], lastUse: (record: SandboxRecord) => number): void {
    const followed = new Map<SandboxId, Followed>();
    const wanted: InstanceName[] = [];
    for (const record of records) {
      const { id, generation, pause } = record;
      const { afterIdleMs } = pause;
      const usedAt = lastUse(record);
      if (afterIdleMs === undefined || !Number.isFinite(usedAt)) continue;
      const known = this.#followed.get(id);
      const isSame = known?.generation === generation && known.usedAt === usedAt && known.afterIdleMs === afterIdleMs;
      const one = isSame ? known : { generation, usedAt, afterIdleMs, readings: [] };
      followed.set(id, one);
      if (this.#needsReading(one)) wanted.push({ sandboxId: id, generation });
    }
    this.#followed = followed;
    if (wanted.length === 0) return;
    this.#reading ??= this.#read(wanted.slice(0, MAX_MEASURED_INSTANCES)).finally(() => {
      this.#reading = undefined;
    });
  }

  /** Returns whether the sandbox has not computed over its time without use. False until that is known. */
  isLow({ id }: SandboxRecord): boolean {
    const { idleCpuPercent, clock } = this.#deps;
    const followed = this.#followed.get(id);
    const last = followed?.readings.at(-1);
    if (!followed || !last || clock.now() - last.at > stepOf(followed) + READ_MS) return false;
    const { readings, usedAt, afterIdleMs } = followed;
    if (last.at < usedAt + afterIdleMs) return false;
    const first = readings.findLast(({ at }) => last.at - at >= shortestSpan(afterIdleMs));
    if (!first) return false;
    return ((last.cpuMs - first.cpuMs) / (last.at - first.at)) * 100 < idleCpuPercent;
  }

  #needsReading(followed: Followed): boolean {
    const { readings, usedAt, afterIdleMs } = followed;
    const now = this.#deps.clock.now();
    const last = readings.at(-1);
    if (!last) return now - usedAt >= Math.min(FIRST_READING_MS, afterIdleMs / 4);
    const isDue = now >= usedAt + afterIdleMs;
    return isDue && (last.at < usedAt + afterIdleMs || now - last.at >= stepOf(followed));
  }

  /** Never rejects: a host that does not answer is asked again. */
  async #read(wanted: readonly InstanceName[]): Promise<void> {
    const { metering, clock, log } = this.#deps;
    using limit = new Deadline(READ_MS);
    try {
      for (const { sandboxId, generation, cpuMs } of await metering.usesOf(wanted, limit.signal)) {
        const followed = this.#followed.get(sandboxId as SandboxId);
        if (followed?.generation !== generation) continue;
        const at = clock.now();
        followed.readings.push({ at, cpuMs });
        const oldest = at - followed.afterIdleMs - stepOf(followed);
        while ((followed.readings[1]?.at ?? Number.POSITIVE_INFINITY) <= oldest) followed.readings.shift();
      }
    } catch (error) {
      log.warn({ err: error }, 'the host does not say what sandboxes use; none is paused for want of use meanwhile');
    }
  }
}

function stepOf({ afterIdleMs }: Followed): number {
  return Math.max(LEAST_STEP_MS, afterIdleMs / STEPS);
}

function shortestSpan(afterIdleMs: number): number {
  return afterIdleMs - Math.min(TOLERANCE_MS, afterIdleMs / 2);
}
