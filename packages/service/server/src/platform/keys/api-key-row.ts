/** Conversion between API keys and rows of the database. */
import type { ALL_SCOPES, ApiKeyId, OrgId, ProjectId, Scope } from '@cloche/contract';
import type { ApiKeyTable } from '../db/tables/organization-tables.ts';
import { type ApiKeyRecord, OPERATOR } from './api-key.ts';

/**
 * A new key. If a retry finds a key with the same idempotency record, it revokes that key and creates another, because
 * the secret of the first was never returned.
 */
export interface NewKey extends ApiKeyRecord {
  readonly idempotencyRecordId?: string | undefined;
}

export function toRow(key: NewKey): ApiKeyTable {
  return {
    id: key.id,
    org_id: key.orgId,
    name: key.name,
    public_part: key.publicPart ?? null,
    secret_hash: key.secretHash,
    scopes: JSON.stringify(key.scopes),
    project_ids: key.projectIds ? JSON.stringify(key.projectIds) : null,
    created_at: key.createdAt,
    created_by: key.createdBy === OPERATOR ? null : key.createdBy,
    last_used_at: key.lastUsedAt ?? null,
    expires_at: key.expiresAt ?? null,
    revoked_at: key.revokedAt ?? null,
    superseded: 0,
    rotated_from: key.rotatedFrom ?? null,
    idempotency_record_id: key.idempotencyRecordId ?? null,
  };
}

/** Converts a row. The casts are sound because only this repository writes these columns. */
export function toRecord(row: ApiKeyTable): ApiKeyRecord {
  return {
    id: row.id as ApiKeyId,
    orgId: row.org_id as OrgId,
    name: row.name,
    publicPart: row.public_part ?? undefined,
    secretHash: row.secret_hash,
    scopes: JSON.parse(row.scopes) as (Scope | typeof ALL_SCOPES)[],
    projectIds: row.project_ids === null ? undefined : (JSON.parse(row.project_ids) as ProjectId[]),
    createdAt: row.created_at,
    createdBy: (row.created_by as ApiKeyId | null) ?? OPERATOR,
    lastUsedAt: row.last_used_at ?? undefined,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    rotatedFrom: (row.rotated_from as ApiKeyId | null) ?? undefined,
  };
}
