import type { Logger } from 'pino';

/** What one connection sets off ends that connection alone, however it fails: all others go through the same process. */
export function contained(log: Logger, work: Promise<void>, end: () => void): void {
  work.catch((err: unknown) => {
    log.error({ operation: 'carry', outcome: 'failed', err });
    end();
  });
}
