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
/** Kinds of one requester that are remembered, so that it does not push those of others out. */
const MAX_KINDS_OF_ONE = 4;
/** Part of the places that the instances of one owner take at most. It may always have one instance, if that fits. */
const OWNER_SHARE = 0.5;
/** Weight of a kind that is expected to be requested: that of two requests. */
const EXPECTED_WEIGHT = 2;
/** Instances that each requested kind gets at least, where the pool has room. */
const MIN_SHARE = 2;

interface KindDemand {
  kind: PoolKind;
  isSeed: boolean;
  /** Who has requested it. Undefined if that is not known, or if several have. */
  requester: string | undefined;
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
    for (const kind of kinds) this.#get(kind, undefined).isSeed = true;
  }

  /** Notes a request for an instance of that kind. */
  note(kind: PoolKind, requester = kind.owner): void {
    const entry = this.#get(kind, requester);
    entry.weight = this.#weightOf(entry) + 1;
    entry.at = this.#now();
    this.#forget();
  }

  /** Notes that instances of that kind will be requested soon: they are launched ahead from now on. */
  expect(kind: PoolKind): void {
    const entry = this.#get(kind, kind.owner);
    entry.weight = Math.max(this.#weightOf(entry), EXPECTED_WEIGHT);
    entry.at = this.#now();
    this.#forget();
  }

  /** Returns the kinds that were requested, each with the weight that it had `agoMs` ago. */
  requested(): { kind: PoolKind; weight: number; agoMs: number }[] {
    this.#forget();
    const requested = [...this.#kinds.values()].filter(({ weight }) => weight > 0);
    return requested.map(({ kind, weight, at }) => ({ kind, weight, agoMs: this.#now() - at }));
  }

  /** Adds a kind that had that weight `agoMs` ago, unless it was requested since. */
  restore(kind: PoolKind, weight: number, agoMs: number): void {
    const entry = this.#get(kind, kind.owner);
    if (entry.weight === 0) Object.assign(entry, { weight, at: this.#now() - agoMs });
    this.#forget();
  }

  /** Returns whether that kind is a seed, or was requested in the last minutes. */
  remembers(id: KindId): boolean {
    this.#forget();
    return this.#kinds.has(id);
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
    const owned = new OwnedPlaces(size * OWNER_SHARE);
    let room = size;
    const pooled = [...this.#kinds.values()]
      .map((entry) => ({ kind: entry.kind, isSeed: entry.isSeed, weight: this.#weightOf(entry) }))
      .filter(({ isSeed, weight }) => isSeed || weight >= MIN_POOLED_WEIGHT)
      .sort((one, other) => other.weight - one.weight)
      .map((one) => ({ ...one, places: placesOf(one.kind.templateVersionId) }))
      .filter(({ kind, places }) => {
        const fits = places <= room && owned.take(kind.owner, 1, places) === 1;
        if (fits) room -= places;
        return fits;
      })
      // The last kind gets the rest, so it should be one without an owner.
      .sort((one, other) => Number(other.kind.owner !== undefined) - Number(one.kind.owner !== undefined));
    const least = Math.min(MIN_SHARE, Math.floor(size / (size - room)));
    const withLeast = pooled.map((one) => ({ ...one, least: 1 + owned.take(one.kind.owner, least - 1, one.places) }));
    const asked = withLeast.reduce((sum, { weight }) => sum + weight, 0);
    const beyond = size - withLeast.reduce((sum, { least, places }) => sum + least * places, 0);
    let rest = beyond;
    return new Map(
      withLeast.map(({ kind, weight, places, least }, index) => {
        const part = asked > 0 ? weight / asked : 1 / withLeast.length;
        const offered = index === withLeast.length - 1 ? rest : Math.min(rest, Math.ceil(beyond * part));
        const more = owned.take(kind.owner, Math.floor(offered / places), places);
        rest -= more * places;
        return [kindId(kind), { kind, share: least + more }] as const;
      }),
    );
  }

  #get(kind: PoolKind, requester: string | undefined): KindDemand {
    const known = this.#kinds.get(kindId(kind));
    if (known) {
      if (known.requester !== requester) known.requester = undefined;
      return known;
    }
    const fresh = { kind, isSeed: false, requester, weight: 0, at: this.#now() };
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
    const heaviest = [...this.#kinds]
      .filter(([, { isSeed }]) => !isSeed)
      .sort(([, one], [, other]) => this.#weightOf(other) - this.#weightOf(one));
    const ofRequesters = new Map<string, number>();
    let room = MAX_KINDS - (this.#kinds.size - heaviest.length);
    for (const [id, { requester }] of heaviest) {
      const count = requester === undefined ? 0 : (ofRequesters.get(requester) ?? 0) + 1;
      if (requester !== undefined) ofRequesters.set(requester, count);
      if (count > MAX_KINDS_OF_ONE || room <= 0) this.#kinds.delete(id);
      else room -= 1;
    }
  }
}

/** Places that the instances of each owner take. */
class OwnedPlaces {
  readonly #most: number;
  readonly #taken = new Map<string, number>();

  /** @param most places of one owner. The first instance of an owner may take more. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Takes places for up to `count` instances. Returns for how many; kinds without an owner get all. */
  take(owner: string | undefined, count: number, places: number): number {
    if (owner === undefined) return count;
    const taken = this.#taken.get(owner) ?? 0;
    const fitting = Math.floor((this.#most - taken) / places);
    const granted = Math.max(0, Math.min(count, taken === 0 ? Math.max(1, fitting) : fitting));
    this.#taken.set(owner, taken + granted * places);
    return granted;
  }
}
