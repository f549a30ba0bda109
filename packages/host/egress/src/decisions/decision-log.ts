import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';
import { LineBudget } from './line-budget.ts';
import { RecentDecisions } from './recent-decisions.ts';

/** The decision about one request, lookup or connection, and its outcome. */
export interface DecisionRecord {
  sandboxId: string;
  protocol: 'http' | 'https' | 'websocket' | 'connect' | 'raw' | 'tls' | 'dns';
  host: string;
  port: number;
  /** `failed`: permitted, but the server could not be reached or broke off. */
  verdict: 'permitted' | 'denied' | 'malformed' | 'failed';
  reason?: string | undefined;
  status?: number;
  /** Bytes on the connection to the server: from the sandbox (`bytesUp`), and to it (`bytesDown`). */
  bytesUp?: number;
  bytesDown?: number;
  durationMs?: number;
}

/** Most characters kept of a text that a sandbox has sent. */
const MAX_TEXT = 255;

/** Counts all decisions and logs them. Limits the lines for each sandbox. */
export class DecisionLog {
  readonly recent = new RecentDecisions();
  readonly #budget = new LineBudget((sandboxId, count) => this.#suppressed(sandboxId, count));
  readonly #log: Logger;
  readonly #decisions: Counter<'protocol' | 'verdict' | 'reason'>;
  readonly #bytes: Counter<'direction'>;
  readonly #suppressedLines: Counter;

  constructor(log: Logger, registry: Registry) {
    this.#log = log;
    this.#decisions = new Counter({
      name: 'cloche_egress_decisions_total',
      help: 'Requests, look-ups and connections of gated sandboxes, by decision.',
      labelNames: ['protocol', 'verdict', 'reason'],
      registers: [registry],
    });
    this.#bytes = new Counter({
      name: 'cloche_egress_bytes_total',
      help: 'Bytes forwarded between gated sandboxes and servers.',
      labelNames: ['direction'],
      registers: [registry],
    });
    this.#suppressedLines = new Counter({
      name: 'cloche_egress_log_lines_suppressed_total',
      help: 'Decisions and failures that were not logged because their sandbox caused too many at once.',
      registers: [registry],
    });
  }

  record(decision: DecisionRecord): void {
    const { protocol, verdict, reason = '', bytesUp = 0, bytesDown = 0 } = decision;
    this.#decisions.inc({ protocol, verdict, reason });
    this.#bytes.inc({ direction: 'up' }, bytesUp);
    this.#bytes.inc({ direction: 'down' }, bytesDown);
    // A permitted lookup is normally followed by the connection that it was made for.
    if (protocol === 'dns' && verdict === 'permitted') this.#log.debug({ operation: 'egress', ...decision });
    else if (this.#budget.take(decision.sandboxId)) this.#write(decision);
    else this.#suppressedLines.inc();
  }

  /** Logs that a connection of a sandbox made egress fail. Counts as a line of the sandbox. */
  fail(sandboxId: string, err: unknown): void {
    if (this.#budget.take(sandboxId)) this.#log.error({ operation: 'proxy', outcome: 'failed', sandboxId, err });
    else this.#suppressedLines.inc();
  }

  /** Reports now how many lines were suppressed, and starts a new window. */
  endWindow(): void {
    this.#budget.endWindow();
  }

  #write({ sandboxId, protocol, host, port, verdict, reason, ...rest }: DecisionRecord): void {
    const kept = {
      ...{ sandboxId, protocol, host: host.slice(0, MAX_TEXT), port, verdict, ...rest },
      ...(reason !== undefined && { reason: reason.slice(0, MAX_TEXT) }),
    };
    this.#log.info({ operation: 'egress', ...kept });
    this.recent.add({ at: new Date().toISOString(), ...kept });
  }

  #suppressed(sandboxId: string, count: number): void {
    this.#log.info({ operation: 'egress', sandboxId, verdict: 'suppressed', count });
    this.recent.add({ at: new Date().toISOString(), sandboxId, verdict: 'suppressed', count });
  }
}
