import type { ApiKeyId, ErrorCode, Operation } from '@cloche/contract';
import { reportTo } from '@cloche/node-support';
import type { Logger } from 'pino';
import { type Clock, isWithin } from '../base/clock.ts';
import type { AuditLog, NewAuditEvent } from './audit-log.ts';
import { type AuditOrigin, auditActionOf, originFields, type RequestAudit, targetOf } from './request-audit.ts';

const WINDOW_MS = 60_000;
/** Refusals and failures of one key that each server records as events of their own in one minute. */
const EVENTS_PER_WINDOW = 10;

interface Window {
  readonly endsAt: number;
  events: number;
  /** The last request without an event of its own, and the number of such requests. */
  omitted: { readonly event: NewAuditEvent; readonly count: number } | undefined;
}

export interface RefusedRequest extends AuditOrigin {
  readonly operation: Operation;
  readonly params: unknown;
  readonly code: ErrorCode;
  readonly status: number;
  /** The audit event of the request. It may have been written before the request failed. */
  readonly audit?: RequestAudit | undefined;
}

export interface RefusalsDeps {
  readonly log: AuditLog;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Records requests that were refused because of a scope or a project. Also records changes that failed through a fault
 * of the service, or after their event was written. The events of each key are limited in each minute; one further
 * event contains the number of the others. If a server is killed, the numbers of its current minute are lost.
 */
export class Refusals {
  readonly #deps: RefusalsDeps;
  readonly #windows = new Map<ApiKeyId, Window>();
  readonly #writing = new Set<Promise<void>>();

  constructor(deps: RefusalsDeps) {
    this.#deps = deps;
  }

  /** Records a request that ended with an error, if it counts. Does not throw, and does not wait for the database. */
  record(request: RefusedRequest): void {
    const event = eventOf(request);
    if (!event) return;
    const { apiKeyId } = request.credential;
    const window = this.#windowOf(apiKeyId);
    window.events += 1;
    if (window.events <= EVENTS_PER_WINDOW) this.#write(event);
    else window.omitted = { event, count: (window.omitted?.count ?? 0) + 1 };
  }

  /**
   * Writes the numbers of past minutes; with `all`, also that of the current one. Resolves when all events are written.
   */
  async flush(all = false): Promise<void> {
    for (const [key, window] of this.#windows) {
      if (all || window.endsAt <= this.#deps.clock.now()) this.#close(key, window);
    }
    await Promise.all(this.#writing);
  }

  #windowOf(key: ApiKeyId): Window {
    const now = this.#deps.clock.now();
    const current = this.#windows.get(key);
    if (current && isWithin(WINDOW_MS, current.endsAt - WINDOW_MS, now)) return current;
    if (current) this.#close(key, current);
    const window: Window = { endsAt: now + WINDOW_MS, events: 0, omitted: undefined };
    this.#windows.set(key, window);
    return window;
  }

  #close(key: ApiKeyId, { omitted }: Window): void {
    this.#windows.delete(key);
    if (omitted) this.#write({ ...omitted.event, omitted: omitted.count });
  }

  #write(event: NewAuditEvent): void {
    const { log, logger } = this.#deps;
    const writing = log.append(event).catch((error: unknown) => {
      logger.error({ err: error, requestId: event.requestId }, 'the audit event of a refused request was not written');
    });
    this.#writing.add(writing);
    writing.finally(() => this.#writing.delete(writing)).catch(reportTo(logger));
  }
}

function eventOf(request: RefusedRequest): NewAuditEvent | undefined {
  const { operation, params, code, status, audit } = request;
  const action = auditActionOf(operation);
  const fields = { ...originFields(request), action: action?.action ?? 'request.refused', code };
  if (audit?.written) return { ...fields, ...audit.written, outcome: 'failed' };
  const outcome = code === 'forbidden' ? 'denied' : status >= 500 && action ? 'failed' : undefined;
  if (!outcome) return undefined;
  const target = action ? targetOf(action, params) : { type: 'operation', id: operation.id };
  return { ...fields, target, outcome };
}
