import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { pathOf } from './json-app.ts';

/** Most lines per window about requests without a valid API key. Any host that reaches the port can cause them. */
export const UNKNOWN_CLIENT_LINES = 60;
const WINDOW_MS = 60_000;

/**
 * Writes one line for each API request: the caller, the operation and the outcome. Never logs a body, a query or a key.
 */
export class OutcomeLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  #windowStart = 0;
  #written = 0;
  #left = 0;

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  write(request: FastifyRequest, reply: FastifyReply): void {
    const { operation, credential, errorCode, isClientsBound, idempotency, span } = request.state;
    const level = !operation ? 'debug' : reply.statusCode >= 500 && !isClientsBound ? 'error' : 'info';
    if (!this.#log.isLevelEnabled(level)) return;
    if (level === 'info' && !credential && !this.#hasRoom()) return;
    const outcome = {
      requestId: request.id,
      operation: operation?.id,
      method: request.method,
      path: pathOf(request).slice(0, 200),
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime * 100) / 100,
      orgId: credential?.orgId,
      apiKeyId: credential?.apiKeyId,
      errorCode,
      idempotency,
      traceId: span?.traceId,
    };
    this.#log[level](outcome, 'request');
  }

  /**
   * Returns whether the window has room for a line. Counts the lines that do not fit, and logs their number in a later
   * window.
   */
  #hasRoom(): boolean {
    const now = this.#clock.now();
    if (now - this.#windowStart >= WINDOW_MS) {
      if (this.#left > 0)
        this.#log.warn({ requests: this.#left }, 'more requests without a valid API key were not logged');
      this.#windowStart = now;
      this.#written = 0;
      this.#left = 0;
    }
    if (this.#written < UNKNOWN_CLIENT_LINES) {
      this.#written += 1;
      return true;
    }
    this.#left += 1;
    return false;
  }
}
