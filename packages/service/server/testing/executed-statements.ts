/**
 * Records the SQL that this process executes, so that tests can compare the work of requests without measuring time.
 */
import { StatementSync } from 'node:sqlite';

const EXECUTING = ['all', 'run', 'iterate', 'get'] as const;

export interface ExecutedStatements extends Disposable {
  /** Returns the text of each statement since the last call. */
  take(): string[];
}

/** Starts to record. Disposal ends it; a process records once at a time. */
export function recordStatements(): ExecutedStatements {
  let texts: string[] = [];
  const prototype = StatementSync.prototype as unknown as Record<string, (...parameters: unknown[]) => unknown>;
  const originals = EXECUTING.map((name) => [name, prototype[name]] as const);
  for (const [name, original] of originals) {
    prototype[name] = function (this: StatementSync, ...parameters: unknown[]) {
      texts.push(this.sourceSQL);
      return original?.apply(this, parameters);
    };
  }
  return {
    take() {
      const taken = texts;
      texts = [];
      return taken;
    },
    [Symbol.dispose]() {
      for (const [name, original] of originals) if (original) prototype[name] = original;
    },
  };
}
