import { dirname } from 'node:path';
import { dataPaths } from '@cloche/layout';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { openStore } from '../features/artifacts/store/open-store.ts';
import { SqlMcpSessions } from '../features/mcp-sessions/sql-mcp-sessions.ts';
import { registerLiveSandboxesGauge } from '../features/operator/live-sandboxes-gauge.ts';
import { quotaRoutes } from '../features/quotas/quota-routes.ts';
import { ImageLayerRepository } from '../features/templates/layers/image-layer-repository.ts';
import { ImageLayers } from '../features/templates/layers/image-layers.ts';
import { DiskSpace } from '../platform/base/disk-space.ts';
import { sharedChanges } from '../platform/db/notifications.ts';
import { BearerKeys } from '../platform/http/credential-sources.ts';
import { InFlight } from '../platform/http/in-flight.ts';
import type { Access } from './compose-access.ts';
import { composeArtifacts } from './compose-artifacts.ts';
import { composeCommands } from './compose-commands.ts';
import { composeEvents } from './compose-events.ts';
import { endingSessions } from './compose-mcp.ts';
import { composePreviews } from './compose-previews.ts';
import { composeSandboxes } from './compose-sandboxes.ts';
import { composeSecrets } from './compose-secrets.ts';
import { composeTemplates } from './compose-templates.ts';
import { composeUsage } from './compose-usage.ts';
import { composeWebhooks } from './compose-webhooks.ts';
import { composeWorkspaceRuns } from './compose-workspace-runs.ts';
import type { Config } from './config.ts';
import type { Foundation } from './open-foundation.ts';

/**
 * Interval of the event loop's delay measurements. Each measurement wakes the server: at the usual 100 a second, they
 * took most of an idle server's processor time.
 */
const EVENT_LOOP_LOOK_MS = 100;

/** Composes the features and their routes. Starts none of their jobs. */
export async function composeFeatures(
  config: Config,
  { shared, driver, tracing }: Foundation,
  { quotas, projects, audit, apiKeys }: Access,
  opened: AsyncDisposableStack,
) {
  const { db, clock, log, servers } = shared;
  const { leaseMs } = config;
  const serverId = servers.own;
  const { authenticator } = apiKeys;
  const isBalanced = config.serverName !== undefined;
  const { serverDir, secretsKeyFile } = dataPaths(config.dataDir);
  const spaceOf = (folder: string) => new DiskSpace(folder, { clock, log, reserveBytes: config.diskReserveBytes });
  const space = spaceOf(serverDir);
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics, eventLoopMonitoringPrecision: EVENT_LOOP_LOOK_MS });
  registerLiveSandboxesGauge(metrics, db);
  const store = await openStore(config.artifacts.url);
  const artifacts = await composeArtifacts({
    ...shared,
    store,
    projects: projects.access,
    quotas,
    settings: config.artifacts,
    space: spaceOf(dirname(config.artifacts.stagingDir)),
  });
  const { keepArtifact } = artifacts;
  const usage = composeUsage({ ...shared, driver });
  const sandboxes = composeSandboxes({
    ...shared,
    usage,
    projects: projects.access,
    quotas,
    auditLog: audit.auditLog,
    driver,
    tracing,
    settings: config.sandboxes,
    metrics,
    keepArtifact,
  });
  const inFlight = new InFlight();
  const previews = composePreviews({
    ...shared,
    projects: projects.access,
    quotas,
    metrics,
    sandboxes: sandboxes.core,
    wakeTimeoutMs: config.sandboxes.wakeTimeoutMs,
    previewUrl: config.previewUrl,
    isBalanced,
    isApiKey: (header) => new BearerKeys(authenticator).isValid(header),
  });
  opened.defer(() => previews.stop());
  const commands = composeCommands({
    ...shared,
    sandboxes: sandboxes.core,
    terminalIdleMs: config.terminalIdleMs,
  });
  const mcpSessions = new SqlMcpSessions({
    ...shared,
    changes: sharedChanges<string>('mcp_session', shared.notifications),
  });
  const sessionsOfKey = endingSessions(mcpSessions, sandboxes.core.destroySandbox, log);
  const keyWork = apiKeys.over([inFlight, previews.open, sessionsOfKey]);
  const webhooks = await composeWebhooks({
    ...shared,
    quotas,
    metrics,
    projects: projects.access,
    serverId,
    leaseMs,
    targets: config.webhookTargets,
    retentionMs: config.sandboxes.eventRetentionMs,
  });
  const secrets = composeSecrets({
    ...shared,
    projects: projects.access,
    quotas,
    sandboxes: sandboxes.core.sandboxes,
    keyOptions: { setting: config.secretsKey, file: secretsKeyFile },
  });
  const { access, files } = sandboxes.core;
  const exportArtifact = artifacts.exportArtifact({ access, files });
  const workspaceRuns = await composeWorkspaceRuns({
    ...shared,
    ...artifacts,
    archiveStore: await openStore(config.artifacts.url, 'archives'),
    maxArchivesBytes: config.maxArchivesBytes,
    metrics,
    projects: projects.access,
    quotas,
    sandboxes: sandboxes.core,
    createCommand: commands.createCommand,
    files,
    exportArtifact,
    settings: config.sandboxes,
    serverId,
    leaseMs,
  });
  const imageLayers = new ImageLayers({
    ...shared,
    repository: new ImageLayerRepository(shared.db, shared.transactions),
    store: await openStore(config.artifacts.url, 'image-layers'),
    staging: artifacts.staging,
    changes: sharedChanges('image_layer', shared.notifications),
    maxBytes: config.maxLayersBytes,
  });
  const templates = composeTemplates({
    ...shared,
    sandboxes: sandboxes.core,
    artifacts: artifacts.repository,
    contents: artifacts.contents,
    driver,
    quotas,
    serverId,
    settings: config.sandboxes,
    projects: projects.access,
    defaultRegistry: config.defaultRegistry,
    imageLayers,
  });
  const routes = [
    ...sandboxes.routes,
    ...commands.routes,
    ...artifacts.routes(exportArtifact),
    ...previews.routes,
    ...keyWork.routes,
    ...projects.routes,
    ...quotaRoutes(quotas, projects.access),
    ...usage.routes({ sandboxes: access, projects: projects.access }),
    ...audit.routes,
    ...composeEvents({ ...shared, projects: projects.access }).routes,
    ...webhooks.routes,
    ...workspaceRuns.routes,
    ...secrets.routes,
    ...templates.routes,
  ];
  return {
    routes,
    metrics,
    space,
    inFlight,
    sandboxes,
    commands,
    artifacts,
    previews,
    keyWork,
    mcpSessions,
    usage,
    webhooks,
    workspaceRuns,
    secrets,
    templates,
  };
}
