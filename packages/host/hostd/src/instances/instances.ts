import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { KeyedQueue, Semaphore } from '@cloche/node-support';
import type { Instance, InstanceUse, LaunchedInstance, LaunchSpec } from '@cloche/protocol';
import type { Logger } from 'pino';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { HostdError } from '../base/hostd-error.ts';
import { idRangeOfSlot } from '../base/id-range.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { type InstanceKey, type InstanceName, instanceKey, isInstanceKey } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord } from '../instance/instance-records.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import { type LaunchPlan, planForSandbox } from '../launch/launch-plan.ts';
import type { Launcher, OnStep, RunningInstance } from '../launch/launcher.ts';
import type { FrozenInstances } from '../memory/frozen-instances.ts';
import type { MemoryRoom } from '../memory/memory-room.ts';
import type { InstanceMeter } from '../metering/instance-meter.ts';
import { type EgressGate, type GatedInstance, gatedPolicy } from '../network/egress-gate.ts';
import type { Runtime } from '../oci/runtime.ts';
import type { WarmPool } from '../pool/warm-pool.ts';
import type { LaunchableVersions } from '../storage/launchable-versions.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';
import type { TakeParked } from './take-parked.ts';
import type { TakePooled } from './take-pooled.ts';

/** Launches at a time; more would only make each of them slower. */
export const PARALLEL_LAUNCHES = 4;
/** Instances checked before the sweep yields to other work; each check takes about 20 µs. */
const CHECKS_BEFORE_YIELD = 32;
/** State of an instance that was not launched ahead, or that was claimed before. */
const UNKNOWN = { agentAnswers: false, kernelReady: false };

export interface LaunchOptions {
  /** The organization in whose share of the pool instances with a client's files count. */
  readonly owner?: string | undefined;
  readonly onStep?: OnStep | undefined;
}

export interface InstancesDeps {
  records: InstanceRecords;
  cgroups: Cgroups;
  frozen: Pick<FrozenInstances, 'forget'>;
  room: MemoryRoom;
  meter: Pick<InstanceMeter, 'trafficOf' | 'useOf'>;
  egress: EgressGate;
  runtime: Runtime;
  kernels: KernelForks;
  removeInstance: (key: InstanceKey) => Promise<void>;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
  launcher: Launcher;
  pool: Pick<WarmPool, 'owns' | 'pauseRefill'>;
  claims: TakePooled;
  parked: TakeParked;
  templates: LaunchableVersions;
  log: Logger;
}

/** The instances that sandboxes of one installation have. Actions on the same instance run one after another. */
export class Instances {
  readonly #deps: InstancesDeps;
  readonly #launches = new Semaphore(PARALLEL_LAUNCHES);
  /** Actions on each instance, run one after another. */
  readonly #actions = new KeyedQueue<InstanceKey>();
  readonly #aborts = new Map<InstanceKey, AbortController>();
  #hasSwept = false;

  constructor(deps: InstancesDeps) {
    this.#deps = deps;
  }

  /**
   * Claims an instance that was launched ahead, or launches one. Idempotent: returns an instance that already lives.
   * Leaves nothing behind if it rejects or `signal` aborts. Tells `onStep` what each step took.
   */
  async launch(
    name: InstanceName,
    spec: LaunchSpec,
    signal: AbortSignal,
    { owner, onStep }: LaunchOptions = {},
  ): Promise<LaunchedInstance> {
    const own = instanceKey(name);
    return this.#actions.run(own, async () => {
      const { records, kernels, templates, claims, parked, removeInstance } = this.#deps;
      const key = records.keyOf(name);
      const living = this.#deps.records.findLive(key);
      if (living) return { ...this.#describeLive(key, living), ...UNKNOWN };
      using _ = this.#deps.room.promise(spec.resources.memoryBytes);
      // An instance of this name may have died without being swept yet.
      if (records.read(key)) await removeInstance(key);

      const template = await templates.get(versionOfSource(spec.source));
      // Called before the first kernel is requested, so that the zygote is loaded by then.
      kernels.prepare(template);
      using disk = await parked.take(name, spec, this.#actions);
      const startedAt = performance.now();
      const claimed = disk ? undefined : await claims.claim({ name, spec, template, owner }, signal, this.#actions);
      onStep?.('claim', performance.now() - startedAt);
      if (claimed) {
        const { kernelReady } = claimed;
        return { ...this.#describe(claimed.key, claimed.record), agentAnswers: true, kernelReady };
      }
      const launched = await this.#launchWhenFree(planForSandbox(name, spec, template, disk?.record), signal, onStep);
      return { ...this.#describe(own, { ...name, ...launched }), ...UNKNOWN };
    });
  }

  /**
   * Kills the instance. Resolves when it is no longer listed; `gone` resolves when nothing of it is left on the host.
   * The caller need not wait for `gone`: hostd completes the removal. Idempotent; a launch under way is aborted and
   * undone first. `use` is undefined if the instance was not alive any more.
   */
  async stop(name: InstanceName): Promise<{ gone: Promise<void>; use: InstanceUse | undefined }> {
    const { records, cgroups, frozen, meter, removeInstance, log } = this.#deps;
    const own = instanceKey(name);
    this.#aborts.get(own)?.abort(new HostdError('launch_failed', `the launch of ${own} was stopped`));
    const killed = Promise.withResolvers<void>();
    let use: InstanceUse | undefined;
    const gone = this.#actions.run(own, async () => {
      const key = records.keyOf(name);
      const living = this.#deps.records.findLive(key);
      if (living) {
        // Written first: if hostd stops after this line, the next sweep kills the instance.
        records.write(key, { ...living, status: 'ending' });
        // Read before the kill, because the kernel removes the link soon after the last process.
        const traffic = meter.trafficOf(living);
        frozen.forget(key);
        cgroups.kill(key);
        use = meter.useOf(key, living, traffic);
        killed.resolve();
        // The caller gets its answer before the remaining removal.
        await setImmediate();
      }
      await removeInstance(key);
    });
    gone.then(killed.resolve, (err) => {
      killed.reject(err);
      log.error({ operation: 'remove', instance: own, outcome: 'failed', err });
    });
    await killed.promise;
    return { gone, use };
  }

  /** Runs an action on a live instance while no other one runs. Throws `instance_not_found`. */
  async runAlone<T>(name: InstanceName, act: (key: InstanceKey, living: LiveRecord) => Promise<T>): Promise<T> {
    return this.runInTurn(name, async (key, living) => {
      if (living === undefined) throw notHere(key);
      return act(key, living);
    });
  }

  /** Runs an action while no other one runs on the instance, which may not be alive. */
  async runInTurn<T>(
    name: InstanceName,
    act: (key: InstanceKey, living: LiveRecord | undefined) => Promise<T>,
  ): Promise<T> {
    return this.#actions.run(instanceKey(name), async () => {
      const key = this.#deps.records.keyOf(name);
      return act(key, this.#deps.records.findLive(key));
    });
  }

  /** Resolves when no action on any instance runs. */
  async settled(): Promise<void> {
    await this.#actions.idle();
  }

  /**
   * Ensures that a Python kernel is connected, or will connect, to the instance's agent for one more context. Throws
   * `kernel_unavailable` when none can be provided now.
   */
  async provideKernel(name: InstanceName): Promise<void> {
    const { records, kernels, cgroups } = this.#deps;
    const key = records.keyOf(name);
    const living = this.#deps.records.findLive(key);
    // A kernel that is forked into a frozen group stops before it has reported.
    if (living === undefined || cgroups.freezer.isFrozen(key))
      throw new HostdError('kernel_unavailable', `the instance ${key} does not run on this host`);
    try {
      await kernels.provide(key, living);
    } catch (cause) {
      throw new HostdError('kernel_unavailable', cause instanceof Error ? cause.message : String(cause), { cause });
    }
  }

  /** Aborts and undoes every launch under way; their callers get `stopping`. */
  abortLaunches(): void {
    for (const abort of this.#aborts.values()) abort.abort(new HostdError('stopping', 'hostd is stopping'));
  }

  /** Returns every live instance, including those that an earlier hostd launched. */
  list(): Instance[] {
    return this.#deps.records.keys().flatMap((key) => {
      const living = this.#deps.records.findLive(key);
      return living ? [this.#describeLive(key, living)] : [];
    });
  }

  /** Returns a live instance. Throws `instance_not_found`. */
  get(name: InstanceName): Instance {
    const key = this.#deps.records.keyOf(name);
    const living = this.#deps.records.findLive(key);
    if (!living) throw notHere(key);
    return this.#describeLive(key, living);
  }

  /** Returns the live instances whose network is handled by egress. */
  gated(): Map<InstanceKey, GatedInstance> {
    return new Map(
      this.#deps.records.keys().flatMap((key) => {
        const living = this.#deps.records.findLive(key);
        const policy = living?.network && gatedPolicy(living.network);
        if (!living || !policy) return [];
        const { sandboxId, slot } = living;
        return [[key, { sandboxId, policy, address: addressesOfSlot(slot).sandbox }] as const];
      }),
    );
  }

  /** Restores the services that a previous hostd gave to its instances and that ended with it. */
  takeOver(): void {
    const { records, runtime } = this.#deps;
    for (const key of records.keys()) {
      const living = this.#deps.records.findLive(key);
      if (living) runtime.takeOver(key, idRangeOfSlot(living.slot));
    }
  }

  /**
   * Removes what is left of instances that died, of launches whose hostd ended, and of instances that an earlier hostd
   * launched ahead.
   */
  async sweep(): Promise<void> {
    const { records, pool, removeInstance, log } = this.#deps;
    let looks = 0;
    for (const key of this.#keysToSweep()) {
      looks += 1;
      // Yield, so that no launch waits for the check of all instances.
      if (looks % CHECKS_BEFORE_YIELD === 0) await setImmediate();
      const record = records.read(key);
      const line = record && 'sandboxId' in record ? instanceKey(record) : key;
      // The action under way removes what is left itself.
      if (this.#actions.isBusy(line) || pool.owns(key) || this.#deps.records.findLive(key)) continue;
      try {
        await this.#actions.run(line, () => removeInstance(key));
        log.info({ operation: 'sweep', instance: key, outcome: 'removed' });
      } catch (error) {
        log.error({ operation: 'sweep', instance: key, outcome: 'failed', err: error });
      }
    }
  }

  /**
   * Returns the keys to check. Groups without a record come from an earlier hostd; they are searched once, since there
   * may be many.
   */
  #keysToSweep(): Set<InstanceKey> {
    const { records, cgroups } = this.#deps;
    const keys = new Set(records.keys());
    if (this.#hasSwept) return keys;
    this.#hasSwept = true;
    return new Set([...keys, ...[...cgroups.keys()].filter(isInstanceKey)]);
  }

  /** Launches an instance as soon as egress can enforce its policy and fewer than `PARALLEL_LAUNCHES` are under way. */
  async #launchWhenFree(plan: LaunchPlan, signal: AbortSignal, onStep?: OnStep): Promise<RunningInstance> {
    const { egress, launcher, pool, room, runtime } = this.#deps;
    const abort = new AbortController();
    const either = AbortSignal.any([signal, abort.signal]);
    this.#aborts.set(plan.key, abort);
    try {
      // Before the semaphore, so that a launch that waits for egress does not delay others.
      if (plan.network === 'gated') await egress.ready(either);
      using _ = pool.pauseRefill();
      return await this.#launches.run(either, async () => {
        using _taken = await room.take(runtime.waitingInstanceBytes);
        return await launcher.launch(plan, either, onStep);
      });
    } finally {
      this.#aborts.delete(plan.key);
    }
  }

  #describeLive(key: InstanceKey, living: LiveRecord): Instance {
    const isFrozen = this.#deps.cgroups.freezer.isFrozen(key);
    return { ...this.#describe(key, living), ...(isFrozen && { isFrozen }) };
  }

  #describe(key: InstanceKey, running: InstanceName & Pick<LiveRecord, 'source' | 'startedAt'>): Instance {
    const { sandboxId, generation, source, startedAt } = running;
    const agentSocketPath = join(this.#deps.socketsDir, key, 'agent.sock');
    return { sandboxId, generation, templateVersionId: versionOfSource(source), agentSocketPath, startedAt };
  }
}

function notHere(key: InstanceKey): HostdError {
  return new HostdError('instance_not_found', `the instance ${key} does not run on this host`);
}
