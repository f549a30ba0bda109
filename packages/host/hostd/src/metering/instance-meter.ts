import type { InstanceUse } from '@cloche/protocol';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { Counters, LiveRecord } from '../instance/instance-records.ts';
import { type LinkTraffic, linkTraffic } from '../network/link-traffic.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';

const UNUSED: Counters = { cpuUs: 0, egressBytes: 0, ingressBytes: 0 };

/**
 * Reads the resource counters of instances from the kernel. The kernel keeps them, so they outlive hostd and egress,
 * and reading them costs the sandbox no processor time.
 */
export class InstanceMeter {
  readonly #installationId: string;
  readonly #processor: ProcessorGroups;

  constructor({ installationId, processor }: { installationId: string; processor: ProcessorGroups }) {
    this.#installationId = installationId;
    this.#processor = processor;
  }

  /** Returns the counters of an instance since its launch; undefined when its group or its link is gone. */
  read(
    key: InstanceKey,
    instance: Pick<LiveRecord, 'slot' | 'network'>,
    traffic = this.trafficOf(instance),
  ): Counters | undefined {
    const cpuUs = this.#processor.usedUs(key);
    return cpuUs === undefined || traffic === undefined ? undefined : { cpuUs, ...traffic };
  }

  trafficOf({ slot, network }: Pick<LiveRecord, 'slot' | 'network'>): LinkTraffic | undefined {
    return linkTraffic(this.#installationId, slot, network.mode);
  }

  /**
   * Returns what an instance has used since it was given to its sandbox.
   * @param traffic bytes on its link, if they were read before
   */
  useOf(key: InstanceKey, record: LiveRecord, traffic = this.trafficOf(record)): InstanceUse | undefined {
    const { sandboxId, generation } = record;
    const counters = this.countersOf(key, record, traffic);
    if (counters === undefined) return undefined;
    const { cpuUs, ...bytes } = counters;
    return { sandboxId, generation, cpuMs: Math.floor(cpuUs / 1000), ...bytes };
  }

  /** Returns the counters of an instance since it was given to its sandbox; undefined when it is gone. */
  countersOf(key: InstanceKey, record: LiveRecord, traffic = this.trafficOf(record)): Counters | undefined {
    const total = this.read(key, record, traffic);
    if (total === undefined) return undefined;
    const { usedBefore = UNUSED } = record;
    return {
      cpuUs: Math.max(0, total.cpuUs - usedBefore.cpuUs),
      egressBytes: Math.max(0, total.egressBytes - usedBefore.egressBytes),
      ingressBytes: Math.max(0, total.ingressBytes - usedBefore.ingressBytes),
    };
  }
}
