/** The pause policies that clients ask for. */
import type { CreateSandboxBody, Issue, MemoryMode, PausePolicyChange, SandboxPause } from '@cloche/contract';
import { AppError, invalidRequest } from '../../../platform/base/app-error.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';

export interface PlannedPause {
  readonly body: CreateSandboxBody;
  readonly ttlMs: number;
  /** Whether the policy of the operator applies to a body that says nothing of it. */
  readonly isClients: boolean;
  /** Whether it is paused at its expiry if the body does not say, and memory can be kept. */
  readonly isFoundByName?: boolean;
}

/** Says whether sandboxes can be paused by themselves, keeping what a policy asks for. Default: as without one. */
export type CanPause = (memory?: MemoryMode) => Promise<boolean>;

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
  if (retainMs > pauseRetentionMs) issues.push(tooLong(pauseRetentionMs));
  if (cannotWake(pause ?? {})) issues.push(CANNOT_WAKE);
}

/**
 * Returns the policy after a change. Whether it can be obeyed, `requirePauses` says.
 *
 * @throws AppError `invalid_request`
 */
export function changedPause(
  { pause, idleTimeoutMs }: SandboxRecord,
  { afterIdleMs: given, ...change }: PausePolicyChange,
  { pauseRetentionMs }: SandboxSettings,
): SandboxPause {
  if (typeof given === 'number' && idleTimeoutMs !== undefined) {
    const message = 'cannot be used for a sandbox with an idleTimeoutMs, which destroys it';
    throw invalidRequest({ path: 'body.pause.afterIdleMs', message });
  }
  if ((change.retainMs ?? 0) > pauseRetentionMs) throw invalidRequest(tooLong(pauseRetentionMs));
  const { afterIdleMs: earlier, ...others } = pause;
  const afterIdleMs = given === undefined ? earlier : given;
  const changed = { ...(typeof afterIdleMs === 'number' && { afterIdleMs }), ...others, ...change };
  if (cannotWake(changed)) throw invalidRequest(CANNOT_WAKE);
  return changed;
}

const CANNOT_WAKE: Issue = {
  path: 'body.pause.memory',
  message: 'cannot be `drop` with `wake: traffic`: a request to a preview wakes no sandbox whose memory is lost',
};

function cannotWake({ memory, wake }: Partial<Pick<SandboxPause, 'memory' | 'wake'>>): boolean {
  return memory === 'drop' && wake === 'traffic';
}

function tooLong(mostMs: number): Issue {
  return { path: 'body.pause.retainMs', message: `must be at most ${mostMs}, the operator's maximum` };
}

/** @throws AppError `conflict` if the policy asks for pauses that cannot be made */
export async function requirePauses(
  { afterIdleMs, onExpiry, memory }: Partial<SandboxPause>,
  canPause: CanPause,
): Promise<void> {
  if ((afterIdleMs === undefined && !onExpiry) || (await canPause(memory))) return;
  const field = onExpiry ? 'onExpiry' : 'afterIdleMs';
  const message = `The memory of a sandbox cannot be kept here, so it cannot be paused; leave body.pause.${field} out.`;
  throw new AppError('conflict', message, { details: { reason: 'memory_unsupported' } });
}

/**
 * Returns the policy with its defaults.
 *
 * @param canPause whether sandboxes can be paused here
 * @throws AppError `conflict` if the body asks for pauses that cannot be made
 */
export async function planPause(
  { body, ttlMs, isClients, isFoundByName = false }: PlannedPause,
  { pauseRetentionMs, pauseAfterIdleMs }: SandboxSettings,
  canPause: CanPause,
): Promise<SandboxPause> {
  const { memory = 'prefer' } = body.pause ?? {};
  const {
    afterIdleMs,
    onExpiry = isFoundByName && (await canPause(memory)),
    wake = 'requests',
    wakeTtlMs = ttlMs,
    retainMs = pauseRetentionMs,
  } = body.pause ?? {};
  const policy = { onExpiry, memory, wake, wakeTtlMs, retainMs };
  const isOperators = isClients && body.pause === undefined && body.idleTimeoutMs === undefined;
  const idleMs = isOperators ? pauseAfterIdleMs : afterIdleMs;
  const planned = idleMs === undefined ? policy : { afterIdleMs: idleMs, ...policy };
  if (isOperators) return idleMs === undefined || (await canPause()) ? planned : policy;
  await requirePauses(planned, canPause);
  return planned;
}
