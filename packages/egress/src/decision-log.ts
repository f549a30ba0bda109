import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';

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

/** One line and one count for each decision. */
export class DecisionLog {
  readonly #log: Logger;
  readonly #decisions: Counter<'protocol' | 'verdict' | 'reason'>;
  readonly #bytes: Counter<'direction'>;

  constructor(log: Logger, registry: Registry) {
    this.#log = log;
    this.#decisions = new Counter({
      name: 'cloche_egress_decisions_total',
      help: 'Requests, look-ups and connections of gated sandboxes, by what was decided.',
      labelNames: ['protocol', 'verdict', 'reason'],
      registers: [registry],
    });
    this.#bytes = new Counter({
      name: 'cloche_egress_bytes_total',
      help: 'Bytes carried between gated sandboxes and servers.',
      labelNames: ['direction'],
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
    else this.#log.info({ operation: 'egress', ...decision });
  }
}
