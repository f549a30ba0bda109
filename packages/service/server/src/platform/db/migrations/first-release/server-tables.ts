/** Servers, and the requests that they answer once. */
export const SERVER_TABLES = `
create table server_leases (
  id text primary key, lease_until bigint not null, host text, version text, schema_version text
);

create table server_secrets (
  name text primary key, value text not null
);

create table idempotency_records (
  id text primary key, org_id text not null, api_key_id text not null, method text not null,
  route text not null, key text not null, body_hash text not null, state text not null, owner text not null,
  response_status integer, response_body text, created_at bigint not null, expires_at bigint not null,
  response_file text, stored_bytes bigint not null default 0, claim integer not null default 1,
  constraint idempotency_scope unique (org_id, api_key_id, method, route, key)
);
create index idempotency_records_in_progress on idempotency_records (owner) where state = 'in_progress';
-- Answers alone how many bytes the records of each organization take.
create index idempotency_records_expiry on idempotency_records (expires_at, org_id, stored_bytes);

create table replay_parts (
  name text not null, part integer not null, hour integer not null, content bytea not null,
  constraint replay_parts_key primary key (name, part)
);
create index replay_parts_hour on replay_parts (hour);
`;
