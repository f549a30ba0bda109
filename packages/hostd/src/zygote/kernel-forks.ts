import type { InstanceKey } from '../instance/instance-key.ts';
import type { ProcessIdentity } from '../kernel/process-identity.ts';
import type { TemplateVersion } from '../storage/templates.ts';
import type { Zygotes } from './zygotes.ts';

/** The methods of `Zygotes` that fork kernels. */
type Forker = Pick<Zygotes, 'prepare' | 'serves' | 'ready' | 'fork' | 'close'>;

/** Contexts of one sandbox that are opened at once rarely are more; the agent starts kernels itself beyond. */
const MAX_FORKS_OF_AN_INSTANCE = 16;

/** What a kernel is forked into: the record of an instance. */
export interface ForkTarget {
  templateVersionId: string;
  init: ProcessIdentity;
}

/** Kernels for the instances of one hostd, ahead of demand or on it. */
export class KernelForks {
  /** Undefined where no sandbox can be entered: kernels are started inside them there. */
  readonly #zygotes: Forker | undefined;
  /** Instances that have a kernel more than they have been asked for. */
  readonly #spares = new Set<InstanceKey>();
  /** Forks under way, by instance: root of a sandbox can hold up those into it, for seconds each. */
  readonly #underWay = new Map<InstanceKey, number>();
  /** Those that shall have one. */
  readonly #wanting = new Set<InstanceKey>();

  constructor(zygotes: Forker | undefined) {
    this.#zygotes = zygotes;
  }

  /** Has kernels of that template version be forked soon. Idempotent. */
  prepare(template: TemplateVersion): void {
    this.#zygotes?.prepare(template);
  }

  /** Sees to it that a kernel is or arrives at the instance's agent, for one context more. Rejects when none can be. */
  async provide(key: InstanceKey, target: ForkTarget): Promise<void> {
    if (this.takeSpare(key)) return;
    this.#wanting.delete(key);
    await this.#fork(key, target);
  }

  /** Takes the kernel that was forked into the instance ahead. Returns whether there was one. */
  takeSpare(key: InstanceKey): boolean {
    return this.#spares.delete(key);
  }

  /**
   * Forks a kernel ahead of demand: the one that `provide` is asked for next. While the zygote is loading, it follows
   * when that is ready. Where none is to be had, none is there: the agent can start one when it is needed.
   */
  async addSpare(key: InstanceKey, target: ForkTarget): Promise<void> {
    this.#wanting.add(key);
    const added = this.#fork(key, target).catch(async () => {
      await this.#zygotes?.ready(target.templateVersionId);
      if (this.#wanting.has(key)) await this.#fork(key, target);
    });
    const noted = added.then(
      () => void (this.#wanting.delete(key) && this.#spares.add(key)),
      () => void this.#wanting.delete(key),
    );
    if (this.#zygotes?.serves(target.templateVersionId)) await noted;
  }

  /** The instance is gone. Idempotent. */
  forget(key: InstanceKey): void {
    this.#wanting.delete(key);
    this.#spares.delete(key);
  }

  /** Kernels that were forked live on. */
  async close(): Promise<void> {
    await this.#zygotes?.close();
  }

  async #fork(key: InstanceKey, target: ForkTarget): Promise<void> {
    if (this.#zygotes === undefined) throw new Error('no kernel can be forked on this host');
    const underWay = this.#underWay.get(key) ?? 0;
    if (underWay >= MAX_FORKS_OF_AN_INSTANCE) throw new Error(`${underWay} forks into ${key} are under way already`);
    this.#underWay.set(key, underWay + 1);
    try {
      await this.#zygotes.fork(key, target);
    } finally {
      const left = (this.#underWay.get(key) ?? 1) - 1;
      if (left === 0) this.#underWay.delete(key);
      else this.#underWay.set(key, left);
    }
  }
}
