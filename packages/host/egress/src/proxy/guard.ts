import type { DecisionLog } from '../decisions/decision-log.ts';

/** Runs the work of one connection. A failure ends only that connection, because all share one process. */
export function guard(decisions: DecisionLog, sandboxId: string, work: Promise<void>, end: () => void): void {
  work.catch((error: unknown) => {
    end();
    decisions.fail(sandboxId, error);
  });
}
