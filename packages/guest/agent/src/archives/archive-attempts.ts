import type { ArchiveAttempt } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';

interface Unpacking {
  readonly attempt: number;
  readonly end: () => void;
  readonly done: Promise<unknown>;
}

/**
 * Decides between servers that unpack the archive of one workspace run because one of them is cut off from the database
 * or stood still. After a later attempt has begun, no earlier one changes a file.
 */
export class ArchiveAttempts {
  /** By the id of the run. A sandbox has at most one run. */
  readonly #latest = new Map<string, Unpacking>();

  /**
   * Ends the earlier attempts and waits until they have removed what they have stored; then calls `unpack`, whose
   * signal aborts when a further attempt begins. Without `attempt`, calls `unpack` at once. Throws `conflict` if a later
   * attempt is known.
   */
  async run<T>(attempt: ArchiveAttempt | undefined, unpack: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ending = new AbortController();
    if (!attempt) return unpack(ending.signal);
    const earlier = this.#latest.get(attempt.runId);
    if (earlier && earlier.attempt > attempt.attempt) throw superseded();
    earlier?.end();
    const done = (async () => {
      await earlier?.done.catch(() => undefined);
      ending.signal.throwIfAborted();
      return unpack(ending.signal);
    })();
    this.#latest.set(attempt.runId, { attempt: attempt.attempt, end: () => ending.abort(superseded()), done });
    return done;
  }
}

function superseded(): AgentError {
  return new AgentError('conflict', 'The archive of the run is unpacked by a later attempt.');
}
