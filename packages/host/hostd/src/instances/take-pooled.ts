import { setImmediate } from 'node:timers/promises';
import type { KeyedQueue } from '@cloche/node-support';
import { reportTo } from '@cloche/node-support';
import type { LaunchSpec } from '@cloche/protocol';
import type { Logger } from 'pino';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import type { InstanceKey, InstanceName } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord } from '../instance/instance-records.ts';
import type { InstanceMeter } from '../metering/instance-meter.ts';
import { deniedDatagramAddresses } from '../network/datagram-gate.ts';
import { type EgressGate, gatedPolicy } from '../network/egress-gate.ts';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import { kindOf } from '../pool/pool-kind.ts';
import type { WarmPool } from '../pool/warm-pool.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import type { LaunchableVersion } from '../storage/launchable-versions.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';

export interface ClaimPooledDeps {
  records: InstanceRecords;
  pool: Pick<WarmPool, 'take'>;
  egress: EgressGate;
  network: SandboxNetwork;
  kernels: KernelForks;
  meter: InstanceMeter;
  processor: ProcessorGroups;
  removeInstance: (key: InstanceKey) => Promise<void>;
  log: Logger;
}

/** The sandbox that needs an instance. */
export interface ClaimRequest {
  readonly name: InstanceName;
  readonly spec: LaunchSpec;
  readonly template: LaunchableVersion;
  /** The organization in whose share of the pool instances with a client's files count. */
  readonly owner: string | undefined;
}

/** An instance that was launched ahead, and the record that makes it the sandbox's. */
export interface ClaimedInstance {
  readonly key: InstanceKey;
  readonly record: LiveRecord;
  /** Whether a kernel of the sandbox already waits for its first context. */
  readonly kernelReady: boolean;
}

/** Gives an instance that waited without a network the link of its sandbox's network. */
function linkTo(links: SandboxNetwork, network: NetworkClass, { slot, init }: Pick<LiveRecord, 'slot' | 'init'>): void {
  if (network === 'open') links.connect(slot, init.pid);
  if (network === 'gated') links.connectToEgress(slot, init.pid);
}

/** Gives instances that were launched ahead to sandboxes. */
export class TakePooled {
  readonly #deps: ClaimPooledDeps;

  constructor(deps: ClaimPooledDeps) {
    this.#deps = deps;
  }

  /**
   * Claims an instance launched ahead. The record makes the claim atomic: if hostd stops before it, the instance is
   * swept as unclaimed; if it stops after it, the instance is listed as the sandbox's.
   * @param actions the actions on each instance; the claim is one of them.
   */
  async claim(
    { name, spec, template, owner }: ClaimRequest,
    signal: AbortSignal,
    actions: KeyedQueue<InstanceKey>,
  ): Promise<ClaimedInstance | undefined> {
    const claimKey = (key: InstanceKey) => this.#claimKey(key, name, spec, signal, actions);
    return this.#deps.pool.take(kindOf(spec, template, owner), signal, claimKey, owner);
  }

  async #claimKey(
    key: InstanceKey,
    name: InstanceName,
    spec: LaunchSpec,
    signal: AbortSignal,
    actions: KeyedQueue<InstanceKey>,
  ): Promise<ClaimedInstance | undefined> {
    const { records, egress, network: links, kernels, meter, removeInstance } = this.#deps;
    const found = records.read(key);
    if (found?.status !== 'pooled') return undefined;
    const { isUnlinked, ...pooled } = found;
    return actions.run(key, async () => {
      try {
        const policy = gatedPolicy(spec.network);
        const address = addressesOfSlot(pooled.slot).sandbox;
        if (policy) await egress.register(key, { sandboxId: name.sandboxId, policy, address }, signal);
        // After the policy is in force.
        if (isUnlinked) linkTo(links, networkClassOf(spec.network.mode), pooled);
        const denied = deniedDatagramAddresses(spec.network);
        if (denied) await links.allowDatagrams(pooled.slot, pooled.init.pid, denied);
        signal.throwIfAborted();
        const { network } = spec;
        const { sandboxId, generation } = name;
        const usedBefore = meter.read(key, { ...pooled, network });
        const claim = { status: 'live', sandboxId, generation, network } as const;
        const record: LiveRecord = { ...pooled, ...claim, ...(usedBefore && { usedBefore }) };
        records.write(key, record);
        this.#raisePriority(key).catch(reportTo(this.#deps.log));
        return { key, record, kernelReady: kernels.takeSpare(key) };
      } catch (error) {
        await removeInstance(key);
        throw error;
      }
    });
  }

  /**
   * Sets the instance's priority after the answer was sent: it takes about 0.1 ms and matters only while processors are
   * contended.
   */
  async #raisePriority(key: InstanceKey): Promise<void> {
    await setImmediate();
    try {
      this.#deps.processor.setPriority(key, 'high');
    } catch (err) {
      this.#deps.log.error({ operation: 'set priority', instance: key, outcome: 'failed', err });
    }
  }
}
