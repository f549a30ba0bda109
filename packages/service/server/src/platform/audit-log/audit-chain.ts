import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { ApiKeyId, AuditEvent, AuditEventId, ErrorCode, OrgId, ProjectId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { canonicalJson } from '../base/canonical-json.ts';
import { timestamp } from '../base/clock.ts';
import type { AuditEventTable } from '../db/tables/audit-tables.ts';

/** `prevHash` of the first event of an organization. */
export const FIRST_PREV_HASH = '0'.repeat(64);

/** The originator of a change or a request. */
export type AuditActor =
  | { readonly type: 'api_key'; readonly id: ApiKeyId }
  | { readonly type: 'operator'; readonly id: 'operator' }
  | { readonly type: 'system'; readonly id: 'system' };

export type AuditRow = Selectable<AuditEventTable>;
export type UnhashedRow = Omit<AuditRow, 'hash'>;

/** Returns the hash of an event, which covers every other field, the hash of the event before included. */
export function hashOf(row: UnhashedRow): string {
  return hash('sha256', canonicalJson(fieldsOf(row)), 'hex');
}

export function toAuditEvent(row: AuditRow): AuditEvent {
  return { ...fieldsOf(row), hash: row.hash };
}

/** Converts a row. The casts are sound because only the audit log writes these columns. */
function fieldsOf(row: UnhashedRow): Omit<AuditEvent, 'hash'> {
  return {
    seq: row.seq,
    id: row.id as AuditEventId,
    at: timestamp(row.at),
    orgId: row.org_id as OrgId,
    ...(row.project_id !== null && { projectId: row.project_id as ProjectId }),
    actor: { type: row.actor_type as AuditActor['type'], id: row.actor_id },
    action: row.action,
    target: { type: row.target_type, id: row.target_id },
    outcome: row.outcome as AuditEvent['outcome'],
    ...(row.code !== null && { code: row.code as ErrorCode }),
    ...(row.omitted !== null && { omitted: row.omitted }),
    ...(row.request_id !== null && { requestId: row.request_id }),
    ...(row.ip !== null && { ip: row.ip }),
    ...(row.changes !== null && { changes: JSON.parse(row.changes) as NonNullable<AuditEvent['changes']> }),
    prevHash: row.prev_hash,
  };
}

/** A place in the chain of an organization: its newest event, or the last one that was deleted after its time. */
export interface ChainMark {
  readonly kind: 'head' | 'cut';
  readonly orgId: string;
  readonly seq: number;
  readonly hash: string;
}

/** Signs marks of chains with a secret that all servers of the database share. */
export class MarkSigner {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  sign({ kind, orgId, seq, hash }: ChainMark): string {
    return createHmac('sha256', this.#key).update(`audit\n${kind}\n${orgId}\n${seq}\n${hash}`).digest('hex');
  }

  isValid(mark: ChainMark, signature: string): boolean {
    const given = Buffer.from(signature, 'utf8');
    const expected = Buffer.from(this.sign(mark), 'utf8');
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}
