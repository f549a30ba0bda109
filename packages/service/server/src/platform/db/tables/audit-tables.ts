export interface AuditTables {
  audit_events: AuditEventTable;
  audit_heads: AuditHeadTable;
  audit_cuts: AuditCutTable;
  audited_expiries: AuditedExpiryTable;
}

export interface AuditEventTable {
  org_id: string;
  seq: number;
  id: string;
  at: number;
  project_id: string | null;
  actor_type: string;
  actor_id: string;
  action: string;
  target_type: string;
  target_id: string;
  outcome: string;
  code: string | null;
  omitted: number | null;
  request_id: string | null;
  ip: string | null;
  /** JSON object. */
  changes: string | null;
  prev_hash: string;
  hash: string;
}

/** The newest audit event of each organization, apart from the events, so that a missing end is found. */
export interface AuditHeadTable {
  org_id: string;
  last_seq: number;
  last_hash: string;
  /** HMAC of the other columns, hex. */
  signature: string;
}

/** The last audit event of each organization that was deleted after its retention period. */
export interface AuditCutTable {
  org_id: string;
  seq: number;
  hash: string;
  /** HMAC of the other columns, hex. */
  signature: string;
}

/** API keys whose expiry has an audit event. */
export interface AuditedExpiryTable {
  api_key_id: string;
}
