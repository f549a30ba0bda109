import { LIMITS } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { ClocheError } from './cloche-error.ts';
import { Deadline } from './deadline.ts';
import type { CallOptions } from './request.ts';

export interface WaitOptions extends CallOptions {
  /** Longest wait in milliseconds. Default: no limit. */
  timeoutMs?: number | undefined;
}

/** A resource that ends by itself. */
export interface Ending {
  readonly name: string;
  readonly hasEnded: () => boolean;
  /** Updates the resource as soon as it has ended, and after `waitMs` at the latest. */
  readonly refresh: (waitMs: number, options: CallOptions) => Promise<unknown>;
}

/**
 * Waits until the resource has ended. Waits up to 30 seconds for an unreachable service, for example while it restarts.
 * @throws {ClocheError} `deadline_exceeded`
 */
export async function waitForEnd(
  client: ApiClient,
  { name, hasEnded, refresh }: Ending,
  { timeoutMs = Number.POSITIVE_INFINITY, signal, ...options }: WaitOptions,
): Promise<void> {
  const deadline = new Deadline(timeoutMs, signal);
  const outage = client.outage(options);
  // The service reported the resource, so it was reachable. It may restart during the first request, which takes up to
  // a minute.
  outage.noteResponse();
  try {
    while (!hasEnded()) {
      const waitMs = Math.min(Math.ceil(deadline.remainingMs), LIMITS.waitMaxMs);
      try {
        await refresh(waitMs, { ...options, signal });
        outage.noteResponse();
      } catch (error) {
        if (!(await outage.shouldRetry(error))) throw error;
      }
      if (!hasEnded() && deadline.remainingMs === 0) {
        throw new ClocheError('deadline_exceeded', `${name} still runs after ${timeoutMs} ms.`);
      }
    }
  } finally {
    deadline.close();
  }
}
