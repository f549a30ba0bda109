/** The faults of a simulation, and their moments. */
import { Random } from '@cloche/testkit/random';
import type { Owner } from './virtual-time.ts';

/** The parts that a server speaks to. Each of them can be cut off. */
export type Link = 'database' | 'host' | 'agent' | 'receiver' | 'store';

export type FaultKind = 'crash' | 'pause' | 'lost request' | 'lost answer' | 'partition' | 'power loss';

/** How likely each fault is at each point where it can happen. */
export type FaultRates = Readonly<Record<FaultKind, number>>;

export const FAULT_KINDS: readonly FaultKind[] = [
  'crash',
  'pause',
  'lost request',
  'lost answer',
  'partition',
  'power loss',
];
/** Rates of kinds that a seed has. */
const RATES: FaultRates = {
  crash: 0.001,
  pause: 0.0015,
  'lost request': 0.002,
  'lost answer': 0.003,
  partition: 0.0008,
  'power loss': 0.0005,
};
/** Most faults of a seed: more of them only hide each other. */
const MOST_FAULTS = 6;
/** Where a request, a launch or an end is under way. Most other events only look for work. */
const DELICATE =
  /idempotency_records|code_contexts|^run|\brun_|launch|begin|commit|update sandboxes|"run |content |freeze|thaw/;
/** How much likelier faults are there. */
const DELICATE_FACTOR = 10;

export interface Fault {
  readonly number: number;
  readonly kind: FaultKind;
  readonly where: string;
}

/**
 * Decides where faults happen. A seed has only some of the kinds, so that rare combinations are not hidden by frequent ones,
 * unless the caller names the kinds.
 * Faults are numbered in their order; `only` leaves out the others, to find those that a violation needs.
 */
export class Faults {
  readonly happened: Fault[] = [];
  readonly #random: Random;
  readonly #rates: FaultRates;
  readonly #only: ReadonlySet<number> | undefined;
  #drawn = 0;
  isOver = false;

  constructor(seed: number, only?: ReadonlySet<number>, kinds?: readonly FaultKind[]) {
    this.#random = new Random(seed ^ 0x5eed);
    this.#only = only;
    const isIn = (kind: FaultKind) => kinds?.includes(kind) ?? this.#random.chance(0.5);
    this.#rates = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, isIn(kind) ? RATES[kind] : 0])) as FaultRates;
  }

  /** Returns whether a fault of `kind` happens here. */
  strikes(kind: FaultKind, where: () => string): boolean {
    if (this.isOver || this.#drawn >= MOST_FAULTS || this.#rates[kind] === 0) return false;
    const factor = DELICATE.test(where()) ? DELICATE_FACTOR : 1;
    if (!this.#random.chance(this.#rates[kind] * factor)) return false;
    const number = this.#drawn++;
    if (this.#only && !this.#only.has(number)) return false;
    this.happened.push({ number, kind, where: where() });
    return true;
  }

  /** Returns how long a fault lasts: some seconds, or longer than the lease of a server. */
  lengthMs(): number {
    return this.#random.chance(0.4) ? this.#random.next() * 8_000 : 15_000 + this.#random.next() * 45_000;
  }

  below(bound: number): number {
    return this.#random.next() * bound;
  }
}

/** A server process, as the network sees it. */
export interface Peer extends Owner {
  /** Until when each link is cut. */
  readonly cutUntil: Map<Link, number>;
}

export function isCut({ cutUntil }: Peer, link: Link, now: number): boolean {
  return (cutUntil.get(link) ?? 0) > now;
}
