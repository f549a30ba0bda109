import { type KindId, kindId, type PoolKind } from './pool-kind.ts';

/** Time after which a request counts half as much as a new one. */
const HALF_LIFE_MS = 5 * 60_000;
/** Time after a request in which another of the same kind is likely. */
const RECENT_MS = 1000;
/** Weight below which a kind that is not a seed is forgotten. */
const MIN_REMEMBERED_WEIGHT = 0.1;
/** Weight from which a kind that is not a seed is launched ahead: two requests, not long apart. */
const MIN_POOLED_WEIGHT = 1.5;
const MAX_KINDS = 16;
/** Instances that each requested kind gets at least, where the pool has room. */
const MIN_SHARE = 2;

interface KindDemand {
  kind: PoolKind;
  isSeed: boolean;
  /** Number of requests at the time `at`; older ones count less. */
  weight: number;
  at: number;
}

/** Tracks which kinds of instances are requested, and computes how many of each to keep ready. */
export class Demand {
  readonly #kinds = new Map<KindId, KindDemand>();
  readonly #now: () => number;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Sets the kinds that are kept ready before any request; replaces the earlier ones. */
  seed(kinds: readonly PoolKind[]): void {
    for (const entry of this.#kinds.values()) entry.isSeed = false;
    for (const kind of kinds) this.#get(kind).isSeed = true;
  }

  /** Notes a request for an instance of that kind. */
  note(kind: PoolKind): void {
    const entry = this.#get(kind);
    entry.weight = this.#weightOf(entry) + 1;
    entry.at = this.#now();
    this.#forget();
  }

  /** Returns whether that kind was requested within the last second. */
  wasJustRequested(id: KindId): boolean {
    const entry = this.#kinds.get(id);
    return entry !== undefined && entry.weight > 0 && this.#now() - entry.at < RECENT_MS;
  }

  /** Forgets the kinds of templates that no longer exist. */
  keepTemplates(templateVersionIds: ReadonlySet<string>): void {
    for (const [id, { kind }] of this.#kinds) {
      if (!templateVersionIds.has(kind.templateVersionId)) this.#kinds.delete(id);
    }
  }

  /**
   * Returns how many instances of each kind to keep ready, so that together they take at most `size` places. A kind's
   * share grows with its requests.
   *
   * @param placesOf returns the places that one instance of a version takes
   */
  shares(
    size: number,
    placesOf: (templateVersionId: string) => number,
  ): Map<KindId, { kind: PoolKind; share: number }> {
    this.#forget();
    let room = size;
    const pooled = [...this.#kinds.values()]
      .map((entry) => ({ kind: entry.kind, isSeed: entry.isSeed, weight: this.#weightOf(entry) }))
      .filter(({ isSeed, weight }) => isSeed || weight >= MIN_POOLED_WEIGHT)
      .sort((one, other) => other.weight - one.weight)
      .map((one) => ({ ...one, places: placesOf(one.kind.templateVersionId) }))
      .filter(({ places }) => {
        const fits = places <= room;
        if (fits) room -= places;
        return fits;
      });
    const ofOneEach = size - room;
    const least = Math.min(MIN_SHARE, Math.floor(size / ofOneEach));
    const asked = pooled.reduce((sum, { weight }) => sum + weight, 0);
    const beyond = size - least * ofOneEach;
    let rest = beyond;
    return new Map(
      pooled.map(({ kind, weight, places }, index) => {
        const part = asked > 0 ? weight / asked : 1 / pooled.length;
        const offered = index === pooled.length - 1 ? rest : Math.min(rest, Math.ceil(beyond * part));
        const more = Math.floor(offered / places);
        rest -= more * places;
        return [kindId(kind), { kind, share: least + more }] as const;
      }),
    );
  }

  #get(kind: PoolKind): KindDemand {
    const known = this.#kinds.get(kindId(kind));
    if (known) return known;
    const fresh = { kind, isSeed: false, weight: 0, at: this.#now() };
    this.#kinds.set(kindId(kind), fresh);
    return fresh;
  }

  #weightOf({ weight, at }: KindDemand): number {
    return weight * 0.5 ** ((this.#now() - at) / HALF_LIFE_MS);
  }

  /** Forgets rare kinds, so that what clients request cannot grow the memory without limit. */
  #forget(): void {
    for (const [id, entry] of this.#kinds) {
      if (!entry.isSeed && this.#weightOf(entry) < MIN_REMEMBERED_WEIGHT) this.#kinds.delete(id);
    }
    if (this.#kinds.size <= MAX_KINDS) return;
    const least = [...this.#kinds]
      .filter(([, { isSeed }]) => !isSeed)
      .sort(([, one], [, other]) => this.#weightOf(one) - this.#weightOf(other));
    for (const [id] of least.slice(0, this.#kinds.size - MAX_KINDS)) this.#kinds.delete(id);
  }
}
