import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';
import { LineBudget } from './line-budget.ts';
import { RecentDecisions } from './recent-decisions.ts';

/** What egress decided for one request, look-up or connection, and what became of it. */
export interface DecisionRecord {
  sandboxId: string;
  protocol: 'http' | 'https' | 'websocket' | 'connect' | 'raw' | 'tls' | 'dns';
  host: string;
  port: number;
  /** `failed`: permitted, but the server could not be asked, or broke off. */
  verdict: 'permitted' | 'denied' | 'malformed' | 'failed';
  reason?: string | undefined;
  status?: number;
  /** From the sandbox to the server, and back, as they went over the connection to the server. */
  bytesUp?: number;
  bytesDown?: number;
  durationMs?: number;
}

/** As much of what a sandbox wrote as is kept. */
const MAX_TEXT = 255;

/** A count for each decision, and a line for each but those of a sandbox that makes too many at once. */
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
      help: 'Decisions that were not logged because their sandbox caused too many at once.',
      registers: [registry],
    });
  }

  record(decision: DecisionRecord): void {
    const { protocol, verdict, reason = '', bytesUp = 0, bytesDown = 0 } = decision;
    this.#decisions.inc({ protocol, verdict, reason });
    this.#bytes.inc({ direction: 'up' }, bytesUp);
    this.#bytes.inc({ direction: 'down' }, bytesDown);
    // A look-up that is permitted is followed by what it was for.
    if (protocol === 'dns' && verdict === 'permitted') this.#log.debug({ operation: 'egress', ...decision });
    else if (this.#budget.take(decision.sandboxId)) this.#write(decision);
    else this.#suppressedLines.inc();
  }

  /** Says now what was suppressed, and begins anew. */
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
