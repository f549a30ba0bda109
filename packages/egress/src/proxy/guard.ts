import type { Logger } from 'pino';

/** Runs the work of one connection. A failure ends only that connection, because all share one process. */
export function guard(log: Logger, work: Promise<void>, end: () => void): void {
  work.catch((err: unknown) => {
    log.error({ operation: 'proxy', outcome: 'failed', err });
    end();
  });
}
