import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Instance, LaunchedInstance, LaunchSpec } from '@cloche/protocol';
import type { Logger } from 'pino';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { HostdError } from '../base/hostd-error.ts';
import { idRangeOfSlot } from '../base/id-range.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { type InstanceKey, type InstanceName, instanceKey, isInstanceKey } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord } from '../instance/instance-records.ts';
import { isProcessAlive } from '../kernel/process-identity.ts';
import type { Launch, Launcher } from '../launch/launcher.ts';
import { deniedToDatagrams } from '../network/datagram-gate.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import { type GatedInstance, gatedPolicy } from '../network/egress-gate.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { Runtime } from '../oci/runtime.ts';
import { kindOf } from '../pool/pool-kind.ts';
import type { WarmPool } from '../pool/warm-pool.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import type { Templates } from '../storage/templates.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';

/** Launches at a time: more would only make each of them slower. */
export const PARALLEL_LAUNCHES = 4;
/** Each takes some 20 µs. */
const LOOKS_IN_ONE_GO = 32;
/** Of one that was not launched ahead, or claimed before. */
const UNKNOWN = { agentAnswers: false, kernelReady: false };

export interface InstancesDeps {
  records: InstanceRecords;
  cgroups: Cgroups;
  processor: ProcessorGroups;
  network: SandboxNetwork;
  egress: EgressGate;
  runtime: Runtime;
  kernels: KernelForks;
  removeInstance: (key: InstanceKey) => Promise<void>;
  /** One folder an instance, with its agent's socket. */
  socketsDir: string;
  launcher: Launcher;
  pool: WarmPool;
  templates: Templates;
  log: Logger;
}

/** The instances of one installation that sandboxes have. What is done to one instance is done one thing after the other. */
export class Instances {
  readonly #deps: InstancesDeps;
  readonly #launches = new Semaphore(PARALLEL_LAUNCHES);
  /** What is done to an instance, one thing after another. */
  readonly #actions = new KeyedQueue<InstanceKey>();
  readonly #aborts = new Map<InstanceKey, AbortController>();
  #hasSwept = false;

  constructor(deps: InstancesDeps) {
    this.#deps = deps;
  }

  /**
   * Claims an instance that was launched ahead, or launches one. Idempotent: one that lives is answered as it is.
   * Leaves nothing behind if it rejects or `signal` aborts.
   */
  async launch(name: InstanceName, spec: LaunchSpec, signal: AbortSignal): Promise<LaunchedInstance> {
    const own = instanceKey(name);
    return this.#actions.run(own, async () => {
      const { records, kernels, templates, removeInstance } = this.#deps;
      const key = records.keyOf(name);
      const living = this.#findLive(key);
      if (living) return { ...this.#describe(key, living), ...UNKNOWN };
      // Of one that died and was not swept yet.
      if (records.read(key)) await removeInstance(key);

      const { templateVersionId } = spec.source;
      const template = await templates.find(templateVersionId);
      if (!template) throw new HostdError('template_not_found', `no template version ${templateVersionId} here`);
      // By the time that its first kernel is asked for.
      kernels.prepare(template);
      const claimed = await this.#claim(name, spec, signal);
      if (claimed) return claimed;
      return { ...(await this.#launchInTurn(own, { name, spec, template }, signal)), ...UNKNOWN };
    });
  }

  /**
   * Resolves when it is killed, and listed no more; `gone` resolves when nothing of it is left on the host, which is
   * hostd's to see to from here on. Idempotent; a launch under way is aborted and undone first.
   */
  async stop(name: InstanceName): Promise<{ gone: Promise<void> }> {
    const { records, cgroups, removeInstance, log } = this.#deps;
    const own = instanceKey(name);
    this.#aborts.get(own)?.abort(new HostdError('launch_failed', `the launch of ${own} was stopped`));
    const killed = Promise.withResolvers<void>();
    const gone = this.#actions.run(own, async () => {
      const key = records.keyOf(name);
      const living = this.#findLive(key);
      if (living) {
        // The intent first: cut off after it, the next sweep kills.
        records.write(key, { ...living, status: 'ending' });
        cgroups.kill(key);
        killed.resolve();
        // Whoever asked hears of it before the rest is cleared up.
        await setImmediate();
      }
      await removeInstance(key);
    });
    gone.then(killed.resolve, (err) => {
      killed.reject(err);
      log.error({ operation: 'remove', instance: own, outcome: 'failed', err });
    });
    await killed.promise;
    return { gone };
  }

  /** Resolves when nothing is being done to any instance. */
  async settled(): Promise<void> {
    await this.#actions.idle();
  }

  /**
   * Sees to it that a Python kernel is or arrives at the instance's agent, for one context more. Throws
   * `kernel_unavailable` when there is none to be had now.
   */
  async provideKernel(name: InstanceName): Promise<void> {
    const { records, kernels } = this.#deps;
    const key = records.keyOf(name);
    const living = this.#findLive(key);
    if (living === undefined)
      throw new HostdError('kernel_unavailable', `the instance ${key} does not run on this host`);
    try {
      await kernels.provide(key, living);
    } catch (cause) {
      throw new HostdError('kernel_unavailable', cause instanceof Error ? cause.message : String(cause), { cause });
    }
  }

  /** Has every launch under way undone; their callers are told so. */
  abortLaunches(): void {
    for (const abort of this.#aborts.values()) abort.abort(new HostdError('no_capacity', 'hostd is stopping'));
  }

  /** Everything alive, those launched by an earlier hostd included. */
  list(): Instance[] {
    return this.#deps.records.keys().flatMap((key) => {
      const living = this.#findLive(key);
      return living ? [this.#describe(key, living)] : [];
    });
  }

  /** Those alive whose network is by egress. */
  gated(): Map<InstanceKey, GatedInstance> {
    return new Map(
      this.#deps.records.keys().flatMap((key) => {
        const living = this.#findLive(key);
        const policy = living?.network && gatedPolicy(living.network);
        if (!living || !policy) return [];
        const { sandboxId, slot } = living;
        return [[key, { sandboxId, policy, address: addressesOfSlot(slot).sandbox }] as const];
      }),
    );
  }

  /** Serves again what instances of an earlier hostd had from it, where that ended with it. */
  takeOver(): void {
    const { records, runtime } = this.#deps;
    for (const key of records.keys()) {
      const living = this.#findLive(key);
      if (living) runtime.takeOver(key, idRangeOfSlot(living.slot));
    }
  }

  /**
   * Removes what is left of instances that died, of launches that their hostd did not survive, and of what an earlier
   * hostd launched ahead.
   */
  async sweep(): Promise<void> {
    const { records, pool, removeInstance, log } = this.#deps;
    let looks = 0;
    for (const key of this.#keysToSweep()) {
      looks += 1;
      // However many live, nobody's launch waits for the look at all of them.
      if (looks % LOOKS_IN_ONE_GO === 0) await setImmediate();
      const record = records.read(key);
      const line = record && 'sandboxId' in record ? instanceKey(record) : key;
      // Whoever is busy with it leaves nothing either.
      if (this.#actions.isBusy(line) || pool.owns(key) || this.#findLive(key)) continue;
      try {
        await this.#actions.run(line, () => removeInstance(key));
        log.info({ operation: 'sweep', instance: key, outcome: 'removed' });
      } catch (error) {
        log.error({ operation: 'sweep', instance: key, outcome: 'failed', err: error });
      }
    }
  }

  /** Groups without a record are those of an earlier hostd: looked for once, since there may be many. */
  #keysToSweep(): Set<InstanceKey> {
    const { records, cgroups } = this.#deps;
    const keys = new Set(records.keys());
    if (this.#hasSwept) return keys;
    this.#hasSwept = true;
    return new Set([...keys, ...[...cgroups.keys()].filter(isInstanceKey)]);
  }

  /**
   * The record is what makes the claim, in one step: cut off before, the instance is swept as one that nobody has; cut
   * off after, it is listed as the sandbox's.
   */
  async #claim(name: InstanceName, spec: LaunchSpec, signal: AbortSignal): Promise<LaunchedInstance | undefined> {
    return this.#deps.pool.take(kindOf(spec), signal, (key) => this.#claimKey(key, name, spec, signal));
  }

  async #claimKey(key: InstanceKey, name: InstanceName, spec: LaunchSpec, signal: AbortSignal) {
    const { records, egress, network: links, kernels, removeInstance } = this.#deps;
    const pooled = records.read(key);
    if (pooled?.status !== 'pooled') return undefined;
    return this.#actions.run(key, async () => {
      try {
        const policy = gatedPolicy(spec.network);
        const address = addressesOfSlot(pooled.slot).sandbox;
        if (policy) await egress.register(key, { sandboxId: name.sandboxId, policy, address }, signal);
        const denied = deniedToDatagrams(spec.network);
        if (denied) await links.openToDatagrams(pooled.slot, pooled.init.pid, denied);
        signal.throwIfAborted();
        const { network } = spec;
        const { sandboxId, generation } = name;
        const record: LiveRecord = { ...pooled, status: 'live', sandboxId, generation, network };
        records.write(key, record);
        void this.#putFirst(key);
        return { ...this.#describe(key, record), agentAnswers: true, kernelReady: kernels.takeSpare(key) };
      } catch (error) {
        await removeInstance(key);
        throw error;
      }
    });
  }

  /** After the answer: it takes some 0.1 ms, and counts while there is not enough of the processor. */
  async #putFirst(key: InstanceKey): Promise<void> {
    await setImmediate();
    try {
      this.#deps.processor.setTurn(key, 'first');
    } catch (err) {
      this.#deps.log.error({ operation: 'set turn', instance: key, outcome: 'failed', err });
    }
  }

  async #launchInTurn(key: InstanceKey, launch: Launch, signal: AbortSignal): Promise<Instance> {
    const { egress, launcher } = this.#deps;
    const abort = new AbortController();
    const either = AbortSignal.any([signal, abort.signal]);
    this.#aborts.set(key, abort);
    try {
      // Before its turn: who waits for egress keeps nobody else waiting.
      if (gatedPolicy(launch.spec.network)) await egress.ready(either);
      using _ = this.#deps.pool.holdBack();
      return await this.#launches.run(either, async () => this.#describe(key, await launcher.launch(launch, either)));
    } finally {
      this.#aborts.delete(key);
    }
  }

  #findLive(key: InstanceKey): LiveRecord | undefined {
    const record = this.#deps.records.read(key);
    return record?.status === 'live' && isProcessAlive(record.init) ? record : undefined;
  }

  #describe(key: InstanceKey, { sandboxId, generation, templateVersionId, startedAt }: LiveRecord): Instance {
    const agentSocketPath = join(this.#deps.socketsDir, key, 'agent.sock');
    return { sandboxId, generation, templateVersionId, agentSocketPath, startedAt };
  }
}
