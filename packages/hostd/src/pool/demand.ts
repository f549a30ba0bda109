import { type KindId, kindId, type PoolKind } from './pool-kind.ts';

/** Time after which a request counts half as much as a new one. */
const HALF_LIFE_MS = 5 * 60_000;
/** Time after a request in which another of the same kind is likely. */
const PRESSING_MS = 1000;
/** Weight below which a kind that is not a seed is forgotten. */
const FORGOTTEN_BELOW = 0.1;
/** Weight from which a kind that is not a seed is launched ahead: two requests, not long apart. */
const WORTH_IT_FROM = 1.5;
const MAX_KINDS = 16;
/** Instances that each wanted kind gets at least, where the pool has room. */
const LEAST_SHARE = 2;

interface Wanted {
  kind: PoolKind;
  isSeed: boolean;
  /** Number of requests at the time `at`; older ones count less. */
  weight: number;
  at: number;
}

/** Tracks which kinds of instances are requested, and computes how many of each to keep ready. */
export class Demand {
  readonly #wanted = new Map<KindId, Wanted>();
  readonly #now: () => number;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Sets the kinds that are kept ready before any request; replaces the earlier ones. */
  seed(kinds: readonly PoolKind[]): void {
    for (const wanted of this.#wanted.values()) wanted.isSeed = false;
    for (const kind of kinds) this.#get(kind).isSeed = true;
  }

  /** Notes a request for an instance of that kind. */
  note(kind: PoolKind): void {
    const wanted = this.#get(kind);
    wanted.weight = this.#weightOf(wanted) + 1;
    wanted.at = this.#now();
    this.#forget();
  }

  /** Returns whether that kind was requested within the last second. */
  wasJustRequested(id: KindId): boolean {
    const wanted = this.#wanted.get(id);
    return wanted !== undefined && wanted.weight > 0 && this.#now() - wanted.at < PRESSING_MS;
  }

  /** Forgets the kinds of templates that no longer exist. */
  keepTemplates(templateVersionIds: ReadonlySet<string>): void {
    for (const [id, { kind }] of this.#wanted) {
      if (!templateVersionIds.has(kind.templateVersionId)) this.#wanted.delete(id);
    }
  }

  /** Returns how many instances to keep of each kind, at most `size` in all. A kind's share grows with its requests. */
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

  /** Forgets rare kinds, so that what clients request cannot grow the memory without limit. */
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
