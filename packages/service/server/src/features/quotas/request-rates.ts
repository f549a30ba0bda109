import type { OrgId } from '@cloche/contract';
import { type Clock, isWithin } from '../../platform/base/clock.ts';
import type { RateFields } from '../../platform/call/call.ts';
import type { RateDecision } from '../../platform/http/request-limit.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import type { Limit, QuotaScope } from './limits.ts';
import { QuotaRefusal } from './quota-refusal.ts';
import type { Quotas } from './quotas.ts';
import { rateFields, withinMinute } from './rate-fields.ts';
import type { RequestCounts } from './request-counts.ts';
import { Window } from './request-window.ts';

/** How long limits are cached: a changed limit is in force after this time. */
const LIMITS_MS = 1_000;

interface Known {
  readonly readAt: number;
  readonly limits: readonly Limit[];
}

export interface RequestRatesDeps {
  readonly quotas: Quotas;
  readonly counts: RequestCounts;
  readonly clock: Clock;
}

/** Applies `requestsPerMinute` to a key's organization, and to the projects that the key is bound to. */
export class RequestRates {
  readonly #deps: RequestRatesDeps;
  readonly #known = new Map<OrgId, Known>();

  constructor(deps: RequestRatesDeps) {
    this.#deps = deps;
  }

  /** Counts a request. Without limits this is one look-up in memory, and once a second one in the database. */
  limitRequest(credential: Credential): RateDecision | undefined | Promise<RateDecision | undefined> {
    const known = this.#known.get(credential.orgId);
    const isFresh = known !== undefined && isWithin(LIMITS_MS, known.readAt, this.#deps.clock.now());
    if (!isFresh) return this.#read(credential.orgId).then((limits) => this.#decide(credential, limits));
    return known.limits.length === 0 ? undefined : this.#decide(credential, known.limits);
  }

  async #read(orgId: OrgId): Promise<readonly Limit[]> {
    const readAt = this.#deps.clock.now();
    const limits = await this.#deps.quotas.limits.listAll(orgId, 'requestsPerMinute');
    this.#known.set(orgId, { readAt, limits });
    return limits;
  }

  async #decide(credential: Credential, all: readonly Limit[]): Promise<RateDecision | undefined> {
    const { quotas, counts, clock } = this.#deps;
    const limits = all.filter(({ projectId }) => projectId === undefined || credential.projectIds?.has(projectId));
    if (limits.length === 0) return undefined;
    const second = Math.floor(clock.now() / 1000);
    const windows: { limit: Limit; window: Window }[] = [];
    for (const limit of limits) {
      const opened = counts.open(keyOf(limit), second);
      windows.push({ limit, window: opened instanceof Window ? opened : await opened });
    }
    // Nothing waits from here to the additions, so simultaneous requests cannot exceed the limit together.
    const over = windows.find(({ limit, window }) => window.count(second) >= limit.limit);
    if (!over) for (const { limit, window } of windows) counts.add(keyOf(limit), window, second);
    const headers = fieldsOf(windows, second);
    if (!over) return { headers, refusal: undefined };
    const { limit, window } = over;
    const retryAfter = withinMinute(window.roomAfter(second, limit.limit) + 1 - second);
    const refusal = new QuotaRefusal(limit, window.count(second), 1, retryAfter);
    await quotas.announce(limit, refusal.use);
    return { headers, refusal };
  }
}

function fieldsOf(windows: readonly { readonly limit: Limit; readonly window: Window }[], second: number): RateFields {
  const states = windows.map(({ limit, window }) => {
    const used = window.count(second);
    // Above a limit that was lowered, the end of the oldest request's minute leaves no room yet.
    const roomAfter = window.roomAfter(second, Math.min(Math.max(used, 1), limit.limit));
    const moreInSeconds = withinMinute(roomAfter + 1 - second);
    return { limit, used, moreInSeconds };
  });
  return rateFields(states);
}

function keyOf({ orgId, projectId }: QuotaScope): string {
  return projectId ?? orgId;
}
