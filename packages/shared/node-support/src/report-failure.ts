const MESSAGE = 'work that nothing awaits failed';

/**
 * Prints the failure of work that nothing awaits, which must end nothing else: a rejection without a `catch` ends the
 * process.
 */
export function reportFailure(error: unknown): void {
  console.error(`${MESSAGE}:`, error);
}

/** Returns what writes such a failure to a log, in a process that has one. */
export function reportTo(log: { error(fields: object, message: string): void }): (error: unknown) => void {
  return (err) => log.error({ err }, MESSAGE);
}
