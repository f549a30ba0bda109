import type { ApiKeyId, OrgId, PreviewId } from '@cloche/contract';
import { TurnBudget } from '@cloche/node-support';
import type { Clock } from '../../../platform/base/clock.ts';
import { ConcurrencyLimit, type ConcurrencyLimits } from '../../../platform/base/concurrency-limit.ts';
import type { OpenWork } from '../../../platform/keys/end-key-work.ts';
import type { PreviewRecord } from '../preview.ts';
import { PreviewError } from './preview-error.ts';

/** Maximum number of concurrent requests and open WebSockets per preview, of all servers together. */
export const MAX_EXCHANGES = 256;
/** Maximum number of concurrent exchanges in all previews; each takes two file descriptors. */
const LIMITS: ConcurrencyLimits = { perOrganization: 512, total: 2048 };
/** Pieces of answers that are handled for an organization in one turn of the event loop; each takes a microsecond or two. */
const PIECES_PER_TURN = 1_000;
/** Longest time without data before an exchange is ended. */
const IDLE_MS = 300_000;
/** Minimum interval between two reports of activity. */
const ACTIVITY_INTERVAL_MS = 1_000;
/** Longest timeout that Node.js timers support, about 24.8 days. */
const MAX_TIMER_MS = 2 ** 31 - 1;

interface ExchangeDeps {
  readonly clock: Clock;
  readonly pieces: TurnBudget;
  readonly onActivity: () => void;
  readonly onEnd: (exchange: Exchange) => void;
}

/** One request through a preview, from its first byte to its last. Its signal aborts when the exchange must end. */
export class Exchange implements Disposable {
  readonly #controller = new AbortController();
  readonly #expiry: NodeJS.Timeout;
  readonly #idle: NodeJS.Timeout;
  readonly #clock: Clock;
  readonly #onActivity: () => void;
  readonly #onEnd: (exchange: Exchange) => void;
  /** Budget for the pieces that its app sends, shared by the exchanges of its organization. */
  readonly pieces: TurnBudget;
  #activityReportedAt = 0;

  constructor(expiresAt: number, { clock, pieces, onActivity, onEnd }: ExchangeDeps) {
    this.#clock = clock;
    this.pieces = pieces;
    this.#onActivity = onActivity;
    this.#onEnd = onEnd;
    const leftMs = Math.min(Math.max(0, expiresAt - clock.now()), MAX_TIMER_MS);
    this.#expiry = setTimeout(() => this.end(ended()), leftMs);
    this.#idle = setTimeout(() => this.end(silent()), IDLE_MS);
    this.touch();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Records that data was transferred. */
  touch(): void {
    this.#idle.refresh();
    const now = this.#clock.now();
    if (now - this.#activityReportedAt < ACTIVITY_INTERVAL_MS) return;
    this.#activityReportedAt = now;
    this.#onActivity();
  }

  end(reason: PreviewError): void {
    this.#controller.abort(reason);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#expiry);
    clearTimeout(this.#idle);
    this.#onEnd(this);
  }
}

/** Tracks and bounds the exchanges of each preview of this server, so that all of them end with the preview. */
export class ExchangeRegistry implements OpenWork {
  readonly #clock: Clock;
  readonly #previews = new Map<PreviewId, Set<Exchange>>();
  readonly #keys = new Map<PreviewId, ApiKeyId>();
  readonly #pieces = new Map<OrgId, TurnBudget>();
  readonly #limit: ConcurrencyLimit;
  #maxExchanges = MAX_EXCHANGES;

  constructor(clock: Clock, limits = LIMITS) {
    this.#clock = clock;
    this.#limit = new ConcurrencyLimit(limits);
  }

  get size(): number {
    return this.#limit.size;
  }

  /** Starts an exchange. The caller disposes it at its end. @throws PreviewError `preview_busy` */
  begin(preview: Pick<PreviewRecord, 'id' | 'orgId' | 'expiresAt' | 'apiKeyId'>, onActivity: () => void): Exchange {
    const exchanges = this.#previews.get(preview.id) ?? new Set();
    const most = this.#maxExchanges;
    if (exchanges.size >= most) {
      throw new PreviewError('preview_busy', `The preview already has ${most} connections; close some.`);
    }
    const { orgId } = preview;
    if (this.#limit.acquire(orgId) !== 'acquired') {
      throw new PreviewError(
        'preview_busy',
        'The service has too many connections to previews; try again in a moment.',
      );
    }
    const pieces = this.#pieces.get(orgId) ?? new TurnBudget(PIECES_PER_TURN);
    this.#pieces.set(orgId, pieces);
    const onEnd = (over: Exchange) => {
      if (!exchanges.delete(over)) return;
      this.#limit.release(orgId);
      // What is owed is paid later: a new exchange does not begin without it.
      if (pieces.isIdle) this.#pieces.delete(orgId);
      if (exchanges.size > 0) return;
      this.#previews.delete(preview.id);
      this.#keys.delete(preview.id);
    };
    const exchange = new Exchange(preview.expiresAt, { clock: this.#clock, pieces, onActivity, onEnd });
    exchanges.add(exchange);
    this.#previews.set(preview.id, exchanges);
    if (preview.apiKeyId !== undefined) this.#keys.set(preview.id, preview.apiKeyId);
    return exchange;
  }

  /** Returns the previews that have exchanges. */
  ids(): PreviewId[] {
    return [...this.#previews.keys()];
  }

  /** Sets how many servers share the limit of each preview. Exchanges beyond a lower limit go on. */
  divideAmong(servers: number): void {
    this.#maxExchanges = Math.ceil(MAX_EXCHANGES / servers);
  }

  endPreview(id: PreviewId): void {
    for (const exchange of this.#previews.get(id) ?? []) exchange.end(ended());
  }

  keyIds(): Iterable<ApiKeyId> {
    return this.#keys.values();
  }

  endKey(id: ApiKeyId): void {
    for (const [previewId, apiKeyId] of this.#keys) if (apiKeyId === id) this.endPreview(previewId);
  }

  endAll(): void {
    for (const id of this.#previews.keys()) this.endPreview(id);
  }
}

function ended(): PreviewError {
  return new PreviewError('preview_not_found', 'The preview has ended.');
}

function silent(): PreviewError {
  return new PreviewError('preview_timeout', `No data was transferred for ${IDLE_MS / 1000} seconds.`);
}
