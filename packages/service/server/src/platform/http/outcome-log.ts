import type { Logger } from 'pino';
import { LineLimit } from '../base/line-limit.ts';
import type { Outcome } from './outcome.ts';

/** Most lines in a minute about requests without a valid API key. Any host that reaches the port can cause them. */
export const UNKNOWN_CLIENT_LINES = 60;

/**
 * Writes one line for each API request: the caller, the operation and the outcome. Never logs a body, a query or a key.
 */
export class OutcomeLog {
  readonly #log: Logger;
  readonly #unknownClients: LineLimit;

  constructor(log: Logger, now?: () => number) {
    this.#log = log;
    this.#unknownClients = new LineLimit({
      most: UNKNOWN_CLIENT_LINES,
      onLeftOut: (requests) => log.warn({ requests }, 'more requests without a valid API key were not logged'),
      ...(now && { now }),
    });
  }

  write(outcome: Outcome): void {
    const { requestId, operation, method, url, status, durationMs, credential } = outcome;
    const { errorCode, isClientsBound, idempotency, span } = outcome;
    const level = !operation ? 'debug' : status >= 500 && !isClientsBound ? 'error' : 'info';
    if (!this.#log.isLevelEnabled(level)) return;
    if (level !== 'debug' && !credential && !this.#unknownClients.hasRoom()) return;
    const line = {
      requestId,
      operation,
      method,
      path: url?.split('?', 1)[0]?.slice(0, 200),
      status,
      durationMs: Math.round(durationMs * 100) / 100,
      orgId: credential?.orgId,
      apiKeyId: credential?.apiKeyId,
      errorCode,
      idempotency,
      traceId: span?.traceId,
    };
    this.#log[level](line, 'request');
  }
}
