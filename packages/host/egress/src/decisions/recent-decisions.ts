import { orAbort } from '@cloche/node-support';
import { type DecisionEntry, type DecisionPage, MAX_DECISIONS_A_PAGE } from '@cloche/protocol';

const KEPT = 4000;

export interface DecisionRange {
  afterSeq?: number;
  sandboxId?: string | undefined;
}

/** The last decisions, numbered from 1, for operators. */
export class RecentDecisions {
  readonly #kept: DecisionEntry[] = [];
  readonly #capacity: number;
  #seq = 0;
  #next = Promise.withResolvers<void>();

  constructor(capacity = KEPT) {
    this.#capacity = capacity;
  }

  add(entry: Omit<DecisionEntry, 'seq'>): void {
    this.#seq += 1;
    this.#kept.push({ seq: this.#seq, ...entry });
    // Removed in large steps, because each removal moves all remaining entries.
    if (this.#kept.length >= 2 * this.#capacity) this.#kept.splice(0, this.#capacity);
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }

  read({ afterSeq, sandboxId }: DecisionRange): DecisionPage {
    const kept = this.#kept.slice(-this.#capacity);
    const oldest = kept[0]?.seq ?? this.#seq + 1;
    // A larger number comes from an earlier egress process. All decisions of this process are new then.
    const after = afterSeq === undefined || afterSeq > this.#seq ? 0 : afterSeq;
    const missed = afterSeq === undefined ? 0 : Math.max(0, oldest - after - 1);
    const later = kept.filter((entry) => entry.seq > after && (!sandboxId || entry.sandboxId === sandboxId));
    const decisions = later.slice(0, MAX_DECISIONS_A_PAGE);
    const hasMore = later.length > decisions.length;
    return { decisions, hasMore, missed, nextSeq: hasMore ? (decisions.at(-1)?.seq ?? after) : this.#seq };
  }

  /** Resolves when there is a decision to read, or when `signal` aborts. */
  async wait(range: DecisionRange, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.read(range).decisions.length === 0) {
      await orAbort(this.#next.promise, signal).catch(() => undefined);
    }
  }
}
