import { join } from 'node:path';
import type { Instance, LaunchSpec } from '@cloche/protocol';
import type { Logger } from 'pino';
import type { HostParts } from '../host-parts.ts';
import { HostdError } from '../hostd-error.ts';
import { idRangeOfSlot } from '../id-range.ts';
import { isProcessAlive } from '../kernel/process-identity.ts';
import type { Launch, Launcher } from '../launch/launcher.ts';
import { Limiter } from '../launch/limiter.ts';
import { addressesOfSlot } from '../network/address-plan.ts';
import { type GatedInstance, gatedPolicy } from '../network/egress-gate.ts';
import type { Templates } from '../templates.ts';
import { type InstanceKey, type InstanceName, instanceKey, isInstanceKey } from './instance-key.ts';
import type { LiveRecord } from './instance-records.ts';
import { removeInstance } from './remains.ts';

/** Launches at a time: more would only make each of them slower. */
const PARALLEL_LAUNCHES = 4;

export interface InstancesOptions {
  host: HostParts;
  launcher: Launcher;
  templates: Templates;
  log: Logger;
}

/** The instances of one installation. What is done to one instance is done one thing after the other. */
export class Instances {
  readonly #options: InstancesOptions;
  readonly #launches = new Limiter(PARALLEL_LAUNCHES);
  /** The end of the line of each instance that something is being done to. */
  readonly #lines = new Map<InstanceKey, Promise<void>>();
  readonly #aborts = new Map<InstanceKey, AbortController>();

  constructor(options: InstancesOptions) {
    this.#options = options;
  }

  /** Idempotent: one that lives is answered as it is. Leaves nothing behind if it rejects or `signal` aborts. */
  async launch(name: InstanceName, spec: LaunchSpec, signal: AbortSignal): Promise<Instance> {
    const key = instanceKey(name);
    return this.#inLine(key, async () => {
      const living = this.#findLive(key);
      if (living) return this.#describe(key, living);

      const template = await this.#options.templates.find(spec.templateVersionId);
      if (!template) throw new HostdError('template_not_found', `no template version ${spec.templateVersionId} here`);
      return this.#launchInTurn(key, { name, spec, template }, signal);
    });
  }

  /** Idempotent; a launch under way is aborted. Resolves when nothing of the instance is left. */
  async stop(name: InstanceName): Promise<void> {
    const key = instanceKey(name);
    this.#aborts.get(key)?.abort(new HostdError('launch_failed', `the launch of ${key} was stopped`));
    await this.#inLine(key, () => removeInstance(key, this.#options.host));
  }

  /** Has every launch under way undone; their callers are told so. */
  abortLaunches(): void {
    for (const abort of this.#aborts.values()) abort.abort(new HostdError('no_capacity', 'hostd is stopping'));
  }

  /** Everything alive, those launched by an earlier hostd included. */
  list(): Instance[] {
    return this.#options.host.records.keys().flatMap((key) => {
      const living = this.#findLive(key);
      return living ? [this.#describe(key, living)] : [];
    });
  }

  /** Those alive whose network is by egress. */
  gated(): Map<InstanceKey, GatedInstance> {
    return new Map(
      this.#options.host.records.keys().flatMap((key) => {
        const living = this.#findLive(key);
        const policy = living?.network && gatedPolicy(living.network);
        if (!living || !policy) return [];
        const { sandboxId, slot } = living;
        return [[key, { sandboxId, policy, address: addressesOfSlot(slot).sandbox }] as const];
      }),
    );
  }

  /** Serves at the sockets of instances that an earlier hostd launched, where theirs ended with it. */
  openRelays(): void {
    const { host } = this.#options;
    if (!host.runtime.isGvisor) return;
    for (const key of host.records.keys()) {
      const living = this.#findLive(key);
      if (living) host.relays.open(key, idRangeOfSlot(living.slot));
    }
  }

  /** Removes what is left of instances that died, and of launches that their hostd did not survive. */
  async sweep(): Promise<void> {
    const { host, log } = this.#options;
    const keys = new Set([...host.records.keys(), ...[...host.cgroups.keys()].filter(isInstanceKey)]);
    for (const key of keys) {
      // Whoever is busy with it leaves nothing either.
      if (this.#lines.has(key) || this.#findLive(key)) continue;
      try {
        await this.#inLine(key, () => removeInstance(key, host));
        log.info({ operation: 'sweep', instance: key, outcome: 'removed' });
      } catch (error) {
        log.error({ operation: 'sweep', instance: key, outcome: 'failed', err: error });
      }
    }
  }

  async #launchInTurn(key: InstanceKey, launch: Launch, signal: AbortSignal): Promise<Instance> {
    const { host, launcher } = this.#options;
    const abort = new AbortController();
    const either = AbortSignal.any([signal, abort.signal]);
    this.#aborts.set(key, abort);
    try {
      // Before its turn: who waits for egress keeps nobody else waiting.
      if (gatedPolicy(launch.spec.network)) await host.egress.ready(either);
      return await this.#launches.run(either, async () => {
        // Of one that died and was not swept yet.
        if (host.records.read(key)) await removeInstance(key, host);
        return this.#describe(key, await launcher.launch(launch, either));
      });
    } finally {
      this.#aborts.delete(key);
    }
  }

  #findLive(key: InstanceKey): LiveRecord | undefined {
    const record = this.#options.host.records.read(key);
    return record?.status === 'live' && isProcessAlive(record.init) ? record : undefined;
  }

  #describe(key: InstanceKey, { sandboxId, generation, templateVersionId, startedAt }: LiveRecord): Instance {
    const agentSocketPath = join(this.#options.host.socketsDir, key, 'agent.sock');
    return { sandboxId, generation, templateVersionId, agentSocketPath, startedAt };
  }

  async #inLine<T>(key: InstanceKey, act: () => Promise<T>): Promise<T> {
    const before = this.#lines.get(key) ?? Promise.resolve();
    const result = before.then(act);
    const end = result.then(
      () => {},
      () => {},
    );
    this.#lines.set(key, end);
    try {
      return await result;
    } finally {
      if (this.#lines.get(key) === end) this.#lines.delete(key);
    }
  }
}
