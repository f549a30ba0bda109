/** The pause policy of a creation. */
import type { CreateSandboxBody, Issue, SandboxPause } from '@cloche/contract';
import { AppError } from '../../../platform/base/app-error.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';

export interface PlannedPause {
  readonly body: CreateSandboxBody;
  readonly ttlMs: number;
  /** Whether the policy of the operator applies to a body that says nothing of it. */
  readonly isClients: boolean;
}

/** Adds the problems of the policy to `issues`. */
export function checkPause(
  { pause, idleTimeoutMs }: CreateSandboxBody,
  { pauseRetentionMs }: SandboxSettings,
  issues: Issue[],
): void {
  const { afterIdleMs, retainMs = 0 } = pause ?? {};
  if (afterIdleMs !== undefined && idleTimeoutMs !== undefined) {
    issues.push({
      path: 'body.pause.afterIdleMs',
      message: 'cannot be used with body.idleTimeoutMs, which destroys the sandbox; leave one of them out',
    });
  }
  if (retainMs > pauseRetentionMs) {
    issues.push({
      path: 'body.pause.retainMs',
      message: `must be at most ${pauseRetentionMs}, the operator's maximum`,
    });
  }
}

/**
 * Returns the policy with its defaults.
 *
 * @param canPause whether sandboxes can be paused here
 * @throws AppError `conflict` if the body asks for pauses that cannot be made
 */
export async function planPause(
  { body, ttlMs, isClients }: PlannedPause,
  { pauseRetentionMs, pauseAfterIdleMs }: SandboxSettings,
  canPause: () => Promise<boolean>,
): Promise<SandboxPause> {
  const {
    afterIdleMs,
    onExpiry = false,
    wake = 'requests',
    wakeTtlMs = ttlMs,
    retainMs = pauseRetentionMs,
  } = body.pause ?? {};
  const policy = { onExpiry, wake, wakeTtlMs, retainMs };
  const isOperators = isClients && body.pause === undefined && body.idleTimeoutMs === undefined;
  const idleMs = isOperators ? pauseAfterIdleMs : afterIdleMs;
  if (idleMs === undefined && !onExpiry) return policy;
  if (await canPause()) return idleMs === undefined ? policy : { afterIdleMs: idleMs, ...policy };
  if (isOperators) return policy;
  const field = onExpiry ? 'onExpiry' : 'afterIdleMs';
  const message = `The memory of a sandbox cannot be kept here, so it cannot be paused; leave body.pause.${field} out.`;
  throw new AppError('conflict', message, { details: { reason: 'memory_unsupported' } });
}
