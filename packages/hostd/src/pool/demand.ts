import { type KindId, kindId, type PoolKind } from './pool-kind.ts';

/** After this long a request counts for half of a new one. */
const HALF_LIFE_MS = 5 * 60_000;
/** Who asked so short a time ago may well ask again at once. */
const PRESSING_MS = 1000;
/** Below that, a kind that is no seed is forgotten. */
const FORGOTTEN_BELOW = 0.1;
/** A kind that is no seed is worth launching ahead once it was asked for twice, not long apart. */
const WORTH_IT_FROM = 1.5;
const MAX_KINDS = 16;
/** What each kind gets that is worth anything, where there is room. */
const LEAST_SHARE = 2;

interface Wanted {
  kind: PoolKind;
  isSeed: boolean;
  /** Requests, older ones counting less; as of `at`. */
  weight: number;
  at: number;
}

/** Which kinds of instances are asked for, and so how many of each are worth having ready. */
export class Demand {
  readonly #wanted = new Map<KindId, Wanted>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Kinds that are worth having before anybody has asked. Those of before are so no longer. */
  seed(kinds: readonly PoolKind[]): void {
    for (const wanted of this.#wanted.values()) wanted.isSeed = false;
    for (const kind of kinds) this.#get(kind).isSeed = true;
  }

  /** Somebody asked for one. */
  note(kind: PoolKind): void {
    const wanted = this.#get(kind);
    wanted.weight = this.#weightOf(wanted) + 1;
    wanted.at = this.#now();
    this.#forget();
  }

  /** Whether somebody has just asked for one. */
  isPressing(id: KindId): boolean {
    const wanted = this.#wanted.get(id);
    return wanted !== undefined && wanted.weight > 0 && this.#now() - wanted.at < PRESSING_MS;
  }

  /** Those of templates that have gone are of no use to anybody. */
  keepTemplates(templateVersionIds: ReadonlySet<string>): void {
    for (const [id, { kind }] of this.#wanted) {
      if (!templateVersionIds.has(kind.templateVersionId)) this.#wanted.delete(id);
    }
  }

  /** How many to have of each kind; `size` in all at most. The more a kind is asked for, the larger its share. */
  shares(size: number): Map<KindId, { kind: PoolKind; share: number }> {
    this.#forget();
    const worth = [...this.#wanted.values()]
      .map((wanted) => ({ kind: wanted.kind, isSeed: wanted.isSeed, weight: this.#weightOf(wanted) }))
      .filter(({ isSeed, weight }) => isSeed || weight >= WORTH_IT_FROM)
      .sort((one, other) => other.weight - one.weight)
      .slice(0, size);
    const least = Math.min(LEAST_SHARE, Math.floor(size / worth.length));
    const asked = worth.reduce((sum, { weight }) => sum + weight, 0);
    let rest = size - least * worth.length;
    return new Map(
      worth.map(({ kind, weight }, index) => {
        const part = asked > 0 ? weight / asked : 1 / worth.length;
        const more =
          index === worth.length - 1 ? rest : Math.min(rest, Math.ceil((size - least * worth.length) * part));
        rest -= more;
        return [kindId(kind), { kind, share: least + more }] as const;
      }),
    );
  }

  #get(kind: PoolKind): Wanted {
    const known = this.#wanted.get(kindId(kind));
    if (known) return known;
    const fresh = { kind, isSeed: false, weight: 0, at: this.#now() };
    this.#wanted.set(kindId(kind), fresh);
    return fresh;
  }

  #weightOf({ weight, at }: Wanted): number {
    return weight * 0.5 ** ((this.#now() - at) / HALF_LIFE_MS);
  }

  /** Whatever clients ask for, what is remembered is bounded. */
  #forget(): void {
    for (const [id, wanted] of this.#wanted) {
      if (!wanted.isSeed && this.#weightOf(wanted) < FORGOTTEN_BELOW) this.#wanted.delete(id);
    }
    if (this.#wanted.size <= MAX_KINDS) return;
    const least = [...this.#wanted]
      .filter(([, { isSeed }]) => !isSeed)
      .sort(([, one], [, other]) => this.#weightOf(one) - this.#weightOf(other));
    for (const [id] of least.slice(0, this.#wanted.size - MAX_KINDS)) this.#wanted.delete(id);
  }
}
