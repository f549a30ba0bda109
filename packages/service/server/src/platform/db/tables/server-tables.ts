import type { Generated } from 'kysely';

export interface ServerTables {
  server_leases: ServerLeaseTable;
  server_secrets: ServerSecretTable;
  idempotency_records: IdempotencyRecordTable;
  replay_parts: ReplayPartTable;
  mcp_sessions: McpSessionTable;
}

/** Servers that share the database. A server without a valid lease loses the records that it has in progress. */
export interface ServerLeaseTable {
  id: string;
  lease_until: number;
  /** Name of the host that it runs on; null if the server is older than the column, as the version. */
  host: string | null;
  version: string | null;
  /** Newest migration that the server knows; null if the server is older than the column. */
  schema_version: string | null;
}

/** Signing secrets, shared by all servers of the database. */
export interface ServerSecretTable {
  name: string;
  /** Hexadecimal. */
  value: string;
}

export interface IdempotencyRecordTable {
  id: string;
  org_id: string;
  api_key_id: string;
  method: string;
  /** Request path with its parameters filled in. */
  route: string;
  /** The idempotency key, or its hash if the response has a secret. */
  key: string;
  /** SHA-256 of the canonical JSON body, hex. */
  body_hash: string;
  state: 'in_progress' | 'completed' | 'failed';
  /** Id of the executing server, a colon, and the id of its claim. */
  owner: string;
  /** How often the record was claimed. A higher claim ends the work of a lower one. */
  claim: Generated<number>;
  response_status: number | null;
  /** JSON; encrypted under a key that only the caller can derive if it has a secret. */
  response_body: string | null;
  /** JSON of a `ResultFile` if the response is too large for this table. */
  response_file: string | null;
  /** Approximate bytes of the record on the disk. */
  stored_bytes: number;
  created_at: number;
  expires_at: number;
}

/** A part of a large response, where several servers share the database. */
export interface ReplayPartTable {
  /** Name of the `ResultFile`. */
  name: string;
  /** Parts are numbered from 0. */
  part: number;
  /** Hours since the epoch at which the response was made. */
  hour: number;
  /** Compressed. */
  content: Buffer;
}

export interface McpSessionTable {
  /** SHA-256 of the id, hex. */
  id_hash: string;
  api_key_id: string;
  /** Null until a call needs a sandbox. */
  sandbox_id: string | null;
  /** The least severe messages that the client wants; null if it wants none. */
  log_level: string | null;
  /** URIs of resources, JSON. */
  subscriptions: string;
  used_at: number;
}
