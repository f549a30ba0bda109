import { KeyCounts } from '@cloche/node-support';
import type { InstanceKey } from '../instance/instance-key.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import type { LaunchableVersion } from '../storage/launchable-versions.ts';
import type { ForkTarget, Zygotes } from './zygotes.ts';

/** The methods of `Zygotes` that fork kernels. */
type Forker = Pick<Zygotes, 'prepare' | 'serves' | 'ready' | 'fork' | 'close'>;

/**
 * Forks into one instance at a time. More contexts are rarely opened at once; beyond that, the agent starts kernels
 * itself.
 */
const MAX_FORKS_PER_INSTANCE = 16;

/** Forks kernels into the instances of one hostd, ahead of demand or on request. */
export class KernelForks {
  /** Undefined where sandboxes cannot be entered: there the agent starts kernels inside. */
  readonly #zygotes: Forker | undefined;
  /** Instances with a forked kernel that was not requested yet. */
  readonly #spares = new Set<InstanceKey>();
  /** Forks under way, by instance: a sandbox's root can delay forks into it, for seconds each. */
  readonly #underWay = new KeyCounts<InstanceKey>();
  /** Instances that are waiting for a spare kernel. */
  readonly #awaitingSpare = new Set<InstanceKey>();

  constructor(zygotes: Forker | undefined) {
    this.#zygotes = zygotes;
  }

  /** Starts the zygote of that template version, so that kernels can be forked soon. Idempotent. */
  prepare(template: LaunchableVersion): void {
    this.#zygotes?.prepare(template);
  }

  /**
   * Ensures that a kernel is connected, or will connect, to the instance's agent for one more context. Rejects when
   * none can be forked.
   */
  async provide(key: InstanceKey, target: ForkTarget): Promise<void> {
    if (this.takeSpare(key)) return;
    this.#awaitingSpare.delete(key);
    await this.#fork(key, target);
  }

  /** Claims the spare kernel of an instance. Returns whether there was one. */
  takeSpare(key: InstanceKey): boolean {
    return this.#spares.delete(key);
  }

  /**
   * Forks a kernel ahead of demand, for the next `provide`. While the zygote is loading, the fork waits until it is
   * ready. Failures are ignored: the agent can start a kernel when it is needed.
   */
  async addSpare(key: InstanceKey, target: ForkTarget): Promise<void> {
    this.#awaitingSpare.add(key);
    const added = this.#fork(key, target).catch(async () => {
      await this.#zygotes?.ready(versionOfSource(target.source));
      if (this.#awaitingSpare.has(key)) await this.#fork(key, target);
    });
    const noted = added.then(
      () => {
        if (this.#awaitingSpare.delete(key)) this.#spares.add(key);
      },
      () => {
        this.#awaitingSpare.delete(key);
      },
    );
    if (this.#zygotes?.serves(versionOfSource(target.source))) await noted;
  }

  /** Forks no kernel ahead of demand for which the zygote is still loading. Idempotent. */
  awaitNoSpare(key: InstanceKey): void {
    this.#awaitingSpare.delete(key);
  }

  /** Forgets an instance that is gone. Idempotent. */
  forget(key: InstanceKey): void {
    this.#awaitingSpare.delete(key);
    this.#spares.delete(key);
  }

  /** Stops the zygotes. Forked kernels keep running. */
  async close(): Promise<void> {
    await this.#zygotes?.close();
  }

  async #fork(key: InstanceKey, target: ForkTarget): Promise<void> {
    if (this.#zygotes === undefined) throw new Error('no kernel can be forked on this host');
    const underWay = this.#underWay.of(key);
    if (underWay >= MAX_FORKS_PER_INSTANCE) throw new Error(`${underWay} forks into ${key} are under way already`);
    using _ = this.#underWay.add(key);
    await this.#zygotes.fork(key, target);
  }
}
