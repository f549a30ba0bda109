import { dataPaths } from '@cloche/layout';
import { Quotas } from '../features/quotas/quotas.ts';
import { RequestCounts } from '../features/quotas/request-counts.ts';
import { RequestRates } from '../features/quotas/request-rates.ts';
import { OrgRepository } from '../platform/tenancy/org-repository.ts';
import { SqlProjectRepository } from '../platform/tenancy/project-repository.ts';
import { composeApiKeys } from './compose-api-keys.ts';
import { composeAudit } from './compose-audit.ts';
import { composeIdempotency } from './compose-idempotency.ts';
import { composeProjects } from './compose-projects.ts';
import type { Config } from './config.ts';
import type { Foundation } from './open-foundation.ts';

export type Access = Awaited<ReturnType<typeof composeAccess>>;

/**
 * Composes what each request passes before its feature: organizations, projects and their keys, quotas, the audit log,
 * and claims of idempotency keys, which this server's lease covers.
 */
export async function composeAccess(config: Config, { shared, version }: Foundation, opened: AsyncDisposableStack) {
  const { db, clock, ids } = shared;
  const orgs = new OrgRepository(db, clock, ids);
  const projectRecords = new SqlProjectRepository(db);
  const quotas = new Quotas({ ...shared, defaults: config.quotas });
  const counts = new RequestCounts({ ...shared, processId: ids.next('srv_') });
  const rates = new RequestRates({ quotas, counts, clock });
  const projects = composeProjects({ ...shared, limits: quotas.limits, projects: projectRecords });
  const audit = await composeAudit({ ...shared, projects: projects.access, retentionMs: config.auditRetentionMs });
  const { serverDir } = dataPaths(config.dataDir);
  const apiKeys = await composeApiKeys({
    ...shared,
    orgs,
    projects: projectRecords,
    auditLog: audit.auditLog,
    bootstrapKey: config.bootstrapApiKey,
    recordRetentionMs: config.sandboxes.recordRetentionMs,
  });
  opened.defer(() => apiKeys.stop());
  const { replayMaxBytes } = config;
  const claims = await composeIdempotency({ ...shared, version, serverDir, replayMaxBytes });
  opened.defer(() => claims.close());
  return { orgs, quotas, counts, rates, projects, audit, apiKeys, claims };
}
