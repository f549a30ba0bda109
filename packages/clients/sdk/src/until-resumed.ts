import type { SandboxId } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { Deadline } from './deadline.ts';
import type { CallOptions } from './request.ts';

export interface PauseCallback {
  /** Called when a pause of the sandbox has ended the stream, which goes on when something resumes the sandbox. */
  onPaused?: (() => void | Promise<void>) | undefined;
}

/** Longest time from the end of a stream until its sandbox is paused. The pause may be given up meanwhile. */
const PAUSING_MS = 15_000;
const FIRST_LOOK_MS = 100;
const LONGEST_LOOK_MS = 2_000;

/**
 * Resolves when a sandbox whose pause has ended a stream is resumed, or has ended. Looks at its record, which does not
 * wake it. Waits up to 30 seconds for an unreachable service.
 */
export async function untilResumed(client: ApiClient, sandboxId: SandboxId, options: CallOptions): Promise<void> {
  const { signal, maxRetries } = options;
  const deadline = new Deadline(Number.POSITIVE_INFINITY, signal);
  const outage = client.outage({ maxRetries });
  outage.noteResponse();
  const startedAt = performance.now();
  let wasPaused = false;
  try {
    for (let lookMs = FIRST_LOOK_MS; ; lookMs = Math.min(lookMs * 2, LONGEST_LOOK_MS)) {
      try {
        const { paused, status } = (await client.call('getSandbox', { params: { sandboxId }, signal, maxRetries }))
          .sandbox;
        outage.noteResponse();
        wasPaused ||= paused !== undefined;
        // On its way into a pause, it is idle and not paused yet.
        const isPausing = !wasPaused && status === 'idle' && performance.now() - startedAt < PAUSING_MS;
        if (!paused && !isPausing) return;
      } catch (error) {
        if (!(await outage.shouldRetry(error))) throw error;
      }
      await deadline.sleep(lookMs);
    }
  } finally {
    deadline.close();
  }
}
