/** The errors and the audit events of all moves into and out of pauses. */
import type { PauseCause, WakeCause } from '@cloche/contract';
import { AgentError, LaunchError, ParkingError } from '@cloche/runtime';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import { systemAudit } from '../../platform/audit-log/system-audit.ts';
import { AppError, unavailable } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import { hostError, sandboxError } from '../sandbox-records/agent-failures.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';

/** Clears the fields that a pause has written to its record before it is given up. */
export const NOT_PAUSED_YET = { pausedBy: null, pausedMemory: null, lostReason: null } as const;

/**
 * Returns what has the audit event of a move: that of the request that asks for it, else one of the system, if it is the
 * first of a minute.
 */
export function moveAudit(
  { auditLog, clock }: { readonly auditLog: Pick<AuditLog, 'append'>; readonly clock: Clock },
  begun: SandboxRecord,
  action: 'sandbox.paused' | 'sandbox.resumed',
  { by, call = UNAUDITED }: { readonly by?: PauseCause | WakeCause | undefined; readonly call?: Audited },
): Audited {
  if (by === 'request') return call;
  const lastAt = action === 'sandbox.paused' ? begun.pausedAt : begun.resumedAt;
  return { audit: systemAudit(auditLog, { orgId: begun.orgId, action, at: clock.now(), lastAt }) };
}

/** Returns the error to answer with for a failure of a move. */
export function explainedMove(sandbox: SandboxRecord, error: unknown): unknown {
  if (error instanceof AppError) return error;
  if (error instanceof LaunchError) return hostError(error);
  if (error instanceof ParkingError) return parkingError(sandbox, error);
  return error instanceof AgentError ? sandboxError(error, sandbox) : error;
}

function parkingError(sandbox: SandboxRecord, error: ParkingError): AppError {
  if (error.kind === 'unsupported') return filesUnsupported(sandbox);
  return unavailable(`The files of the sandbox "${sandbox.id}" cannot be used now; it stays paused. Try again.`, error);
}

/** Returns the error for a sandbox whose memory cannot be kept: its runtime or its agent has no freezing. */
export function memoryUnsupported({ id }: SandboxRecord): AppError {
  return unsupported(`The memory of the sandbox "${id}" cannot be kept here, so it cannot be paused.`);
}

/** Returns the error for a sandbox whose files cannot be kept without its instance. */
export function filesUnsupported({ id }: SandboxRecord): AppError {
  return unsupported(`The files of the sandbox "${id}" cannot be kept without its memory here.`);
}

function unsupported(message: string): AppError {
  return new AppError('conflict', message, { details: { reason: 'memory_unsupported' } });
}

export function stillRunning({ id }: SandboxRecord, running: number): AppError {
  const message = `The sandbox "${id}" has ${running} code runs or waited commands in progress; wait for them, or pause with force.`;
  return new AppError('conflict', message, { details: { running } });
}
