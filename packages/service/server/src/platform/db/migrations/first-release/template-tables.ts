/** Templates with their versions and builds. */
export const TEMPLATE_TABLES = `
create table templates (
  id text primary key, slug text not null unique, description text not null, languages text not null,
  created_at bigint not null
);

create table template_versions (
  id text not null unique, template_id text not null references templates (id), version text not null,
  digest text not null, packages text not null, built_at bigint not null, seq integer primary key autoincrement,
  constraint template_versions_digest unique (template_id, digest)
);

create table custom_templates (
  id text primary key, org_id text not null, slug text not null, description text not null,
  languages text not null, default_version_id text, created_at bigint not null, deleted_at bigint,
  idempotency_record_id text unique
);
create unique index custom_templates_slug on custom_templates (org_id, slug) where deleted_at is null;

create table custom_template_versions (
  id text not null, org_id text not null, template_id text not null references custom_templates (id),
  build_id text not null, from_version_id text not null, version text not null, digest text not null,
  manifest text not null, packages text not null, resources text not null, layers integer not null,
  size_bytes bigint not null, built_at bigint not null, removed_at bigint,
  constraint custom_template_versions_pk primary key (template_id, id)
);
create index custom_template_versions_template on custom_template_versions (template_id, built_at);
create index custom_template_versions_org on custom_template_versions (org_id, id);
create index custom_template_versions_from on custom_template_versions (from_version_id);

create table template_builds (
  id text primary key, org_id text not null, template_id text not null references custom_templates (id),
  template_slug text not null, status text not null, plan text not null, from_version_id text not null,
  steps text not null, launches integer not null, failures integer not null, sandbox_id text,
  template_version_id text, error text, created_at bigint not null, started_at bigint, finished_at bigint,
  next_attempt_at bigint not null, claimed_by text, claimed_until bigint, idempotency_record_id text unique
);
create index template_builds_template on template_builds (template_id, created_at);
-- Finds the builds that wait, run, or have left something to remove.
create index template_builds_unfinished on template_builds (org_id, created_at)
  where finished_at is null or claimed_by is not null;
-- Finds when a build of an organization last began, because organizations take turns.
create index template_builds_started on template_builds (org_id, started_at);

create table template_steps (
  org_id text not null, key text not null, version_id text not null, from_version_id text not null,
  layers integer not null, size_bytes bigint not null, packages text, image_env text, used_at bigint not null,
  constraint template_steps_pk primary key (org_id, key)
);
create index template_steps_version on template_steps (version_id);

create table image_layers (
  name text primary key, org_id text not null, digest text, size_bytes bigint not null, build_id text,
  used_at bigint not null
);
create unique index image_layers_of_org on image_layers (org_id, digest);
create index image_layers_used on image_layers (used_at);
`;
