import type { Kysely } from 'kysely';
import type { AuditTables } from './tables/audit-tables.ts';
import type { EventTables } from './tables/event-tables.ts';
import type { OrganizationTables } from './tables/organization-tables.ts';
import type { QuotaTables } from './tables/quota-tables.ts';
import type { SandboxTables } from './tables/sandbox-tables.ts';
import type { SecretTables } from './tables/secret-tables.ts';
import type { SequenceLogTables } from './tables/sequence-log-tables.ts';
import type { ServerTables } from './tables/server-tables.ts';
import type { TemplateTables } from './tables/template-tables.ts';
import type { UsageTables } from './tables/usage-tables.ts';
import type { WebhookTables } from './tables/webhook-tables.ts';
import type { WorkspaceRunTables } from './tables/workspace-run-tables.ts';

/**
 * Kysely types of the tables. Times are milliseconds since the epoch; JSON is stored as text. The types hold for
 * PostgreSQL too.
 */
export interface Tables
  extends OrganizationTables,
    ServerTables,
    TemplateTables,
    SandboxTables,
    EventTables,
    WebhookTables,
    SecretTables,
    QuotaTables,
    UsageTables,
    SequenceLogTables,
    WorkspaceRunTables,
    AuditTables {}

export type Database = Kysely<Tables>;
