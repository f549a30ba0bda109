import type { OrgId } from '@cloche/contract';
import type { AuditLog } from './audit-log.ts';
import type { RequestAudit } from './request-audit.ts';

const ACTOR = { type: 'system', id: 'system' } as const;
const MINUTE_MS = 60_000;

/** A change of a sandbox that the service makes by itself. */
export interface SystemChange {
  readonly orgId: OrgId;
  readonly action: string;
  readonly at: number;
  /** When the sandbox was changed in this way before. */
  readonly lastAt: number | undefined;
}

/**
 * Returns what appends the audit event of a change that the service makes by itself; undefined unless it is the first of
 * its kind within a minute of the clock.
 */
export function systemAudit(
  log: Pick<AuditLog, 'append'>,
  { orgId, action, at, lastAt }: SystemChange,
): Pick<RequestAudit, 'append'> | undefined {
  if (lastAt !== undefined && minuteOf(lastAt) === minuteOf(at)) return undefined;
  return {
    async append(tx, { id, projectId }) {
      const target = { type: 'sandbox', id };
      await log.append({ orgId, projectId, actor: ACTOR, action, target, outcome: 'allowed' }, tx);
    },
  };
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE_MS);
}
