import {
  type OrgId,
  type ProjectId,
  type ProjectQuotas,
  QUOTA_NAMES,
  type QuotaName,
  type QuotaUse,
} from '@cloche/contract';
import { type Clock, isWithin } from '../../platform/base/clock.ts';
import type { RateFields } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { type Limit, Limits, type QuotaScope } from './limits.ts';
import { isRate, type MinuteRate, readMinuteRates } from './minute-rates.ts';
import { QuotaRefusal } from './quota-refusal.ts';
import { rateFields, withinMinute } from './rate-fields.ts';
import { UseCounts } from './use-counts.ts';

/** Time for which one event about refusals by a quota in a project is enough. */
const EVENT_INTERVAL_MS = 60_000;
/** Time after which a server looks again for the event of another one. */
const LOOK_AGAIN_MS = 5_000;
/** Tolerance for sums of CPU cores, which are inexact. Far below the smallest unit of every quota. */
const ROUNDING = 1e-6;

export type Additions = Partial<Record<QuotaName, number>>;
/** Throws a `QuotaRefusal` unless all limits have room for the additions. */
export type RequireRoom = (additions: Additions) => Promise<void>;
/** Adds the state of per-minute limits to the headers of the response. Called only where such a limit applies. */
export type ReportRates = (fields: RateFields) => void;

export interface AdmitOptions {
  readonly reportRates?: ReportRates | undefined;
  readonly announces?: boolean | undefined;
  readonly tx?: Transaction | undefined;
}

export interface QuotasDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly clock: Clock;
  /** Limits of every organization whose operator sets no others. */
  readonly defaults: ProjectQuotas;
}

/** Admits requests within the limits of their organization and their project. */
export class Quotas {
  readonly #deps: QuotasDeps;
  readonly #uses: UseCounts;
  /** When this server last looked for the event of a quota and scope, oldest first. */
  readonly #announcedAt = new Map<string, number>();
  readonly limits: Limits;

  constructor(deps: QuotasDeps) {
    this.#deps = deps;
    this.#uses = new UseCounts(deps.db);
    this.limits = new Limits(deps.db, deps.transactions, deps.defaults);
  }

  /**
   * Runs `act` in a transaction. `act` calls `requireRoom` before it writes a row that counts towards a limit. Between
   * that call and the commit, no other transaction writes such a row of the organization. A refusal rolls back and is
   * announced as `quota.exceeded`.
   *
   * @param options.announces false for work that waits until there is room, whose refusals have no events
   * @param options.tx a transaction to join; its caller then announces a refusal after the end of the transaction
   * @throws AppError `quota_exceeded`, `rate_limited`
   */
  async admit<T>(
    scope: QuotaScope,
    act: (tx: Transaction, requireRoom: RequireRoom) => Promise<T>,
    { reportRates, announces = true, tx: joined }: AdmitOptions = {},
  ): Promise<T> {
    const { orgId, projectId } = scope;
    try {
      return await this.#deps.transactions.run(async (tx) => {
        const limits = await this.limits.lock(tx, { orgId, ...(projectId && { projectId }) });
        return act(tx, (additions) => this.#requireWithin(tx, limits, additions, reportRates));
      }, joined);
    } catch (error) {
      if (error instanceof QuotaRefusal && announces && !joined) await this.announce(scope, error.use);
      throw error;
    }
  }

  /** Returns every quota of the organization, or of each of the projects, with its limit and its use. */
  async list(orgId: OrgId, projectIds?: readonly ProjectId[]): Promise<QuotaUse[]> {
    const limited = await this.limits.listOf(orgId, projectIds);
    const asked = limited.flatMap(({ projectId, limits }) =>
      QUOTA_NAMES.map((quota) => ({ quota, projectId, limit: limits[quota] ?? null })),
    );
    const used = await this.#uses.count(orgId, asked, this.#deps.clock.now());
    return asked.map(({ quota, projectId, limit }, index) => ({
      quota,
      limit,
      used: used[index] ?? 0,
      ...(projectId && { project: projectId }),
    }));
  }

  /** Returns how much more the organization may use at present; undefined without a limit. */
  async room(quota: QuotaName, orgId: OrgId): Promise<number | undefined> {
    const limit = (await this.limits.of(orgId))[quota] ?? undefined;
    if (limit === undefined) return undefined;
    const [used = 0] = await this.#uses.count(orgId, [{ quota }], this.#deps.clock.now());
    return limit - used;
  }

  async #requireWithin(
    tx: Transaction,
    limits: readonly Limit[],
    additions: Additions,
    reportRates?: ReportRates,
  ): Promise<void> {
    const now = this.#deps.clock.now();
    const rates = await readMinuteRates(tx.db, limits, additions, now);
    const refusal = (await this.#refusalByUse(tx, limits, additions, now)) ?? refusalByRate(rates, additions, now);
    if (rates.length > 0) {
      const states = rates.map((rate) => ({
        limit: rate.limit,
        used: rate.used + (refusal ? 0 : addedTo(rate, additions)),
        moreInSeconds: secondsUntil(rate.moreAt, now),
      }));
      reportRates?.(rateFields(states));
    }
    if (refusal) throw refusal;
  }

  async #refusalByUse(
    tx: Transaction,
    limits: readonly Limit[],
    additions: Additions,
    now: number,
  ): Promise<QuotaRefusal | undefined> {
    const concerned = limits.filter(({ quota }) => additions[quota] && !isRate(quota));
    const [first] = concerned;
    if (!first) return undefined;
    const used = await this.#uses.count(first.orgId, concerned, now, tx);
    for (const [index, limit] of concerned.entries()) {
      const [taken = 0, added = 0] = [used[index], additions[limit.quota]];
      if (taken + added > limit.limit + ROUNDING) return new QuotaRefusal(limit, taken, added);
    }
    return undefined;
  }

  /** Appends the event unless one for this quota and scope was appended within the last minute, by any server. */
  async announce({ orgId, projectId }: QuotaScope, use: QuotaUse): Promise<void> {
    const { transactions, outbox, clock } = this.#deps;
    const now = clock.now();
    const name = `${projectId ?? orgId} ${use.quota}`;
    // A refusal costs no transaction when this server knows that the event is there already.
    if (isWithin(EVENT_INTERVAL_MS, this.#announcedAt.get(name) ?? Number.NEGATIVE_INFINITY, now)) return;
    const isAnnounced = await transactions.run(async (tx) => {
      const announced = await tx.db
        .insertInto('quota_refusals')
        .values({ scope_id: projectId ?? orgId, quota: use.quota, announced_at: now })
        .onConflict((conflict) =>
          conflict
            .columns(['scope_id', 'quota'])
            .doUpdateSet({ announced_at: now })
            .where('quota_refusals.announced_at', '<=', now - EVENT_INTERVAL_MS),
        )
        .returning('announced_at')
        .executeTakeFirst();
      const project = projectId === undefined ? {} : { projectId };
      if (announced) await outbox.append(tx, { type: 'quota.exceeded', orgId, ...project, data: { quota: use } });
      return announced !== undefined;
    });
    // When another server announced it is not known, so this one looks again soon.
    this.#remember(name, isAnnounced ? now : now - EVENT_INTERVAL_MS + LOOK_AGAIN_MS);
  }

  #remember(name: string, now: number): void {
    for (const [other, at] of this.#announcedAt) {
      if (isWithin(EVENT_INTERVAL_MS, at, now)) break;
      this.#announcedAt.delete(other);
    }
    this.#announcedAt.delete(name);
    this.#announcedAt.set(name, now);
  }
}

function refusalByRate(rates: readonly MinuteRate[], additions: Additions, now: number): QuotaRefusal | undefined {
  const over = rates.find((rate) => rate.used + addedTo(rate, additions) > rate.limit.limit);
  return over && new QuotaRefusal(over.limit, over.used, addedTo(over, additions), secondsUntil(over.moreAt, now));
}

function addedTo({ limit }: MinuteRate, additions: Additions): number {
  return additions[limit.quota] ?? 0;
}

function secondsUntil(at: number, now: number): number {
  return withinMinute((at - now) / 1000);
}
