/** Composes the server from its parts. No other module constructs them. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { dataPaths, runPaths } from '@cloche/layout';
import { tidyWhenIdle } from '@cloche/node-support';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { openStore } from '../artifacts/store/open-store.ts';
import { DiskSpace } from '../base/disk-space.ts';
import { randomIds } from '../base/id-source.ts';
import { ResultMemoryLimit } from '../base/result-memory.ts';
import { serverIdFor } from '../cluster/server-lease.ts';
import { openClock } from '../db/database-clock.ts';
import { kindOf } from '../db/database-kind.ts';
import { LiveServers } from '../db/live-servers.ts';
import { migrate } from '../db/migrate.ts';
import { openNotifications } from '../db/notifications.ts';
import { openDatabase } from '../db/open-database.ts';
import { Transactions } from '../db/transactions.ts';
import type { SchemaReport } from '../db/upgrade-schema.ts';
import { HostdDriver } from '../driver/hostd/hostd-driver.ts';
import type { RuntimeDriver } from '../driver/runtime-driver.ts';
import { AccessFiles } from '../files/access-files.ts';
import { buildApp } from '../http/app.ts';
import { isApiKey } from '../http/authorize.ts';
import type { HostRouter } from '../http/host-router.ts';
import { InFlight } from '../http/in-flight.ts';
import { KeptSocket } from '../http/kept-socket.ts';
import { registerLiveSandboxesGauge } from '../operator/live-sandboxes-gauge.ts';
import { buildOperatorApp, listenForOperator } from '../operator/operator-app.ts';
import { EventOutbox } from '../outbox/event-outbox.ts';
import { logEvents } from '../outbox/log-events.ts';
import { OrgRepository } from '../projects/org-repository.ts';
import { SqlProjectRepository } from '../projects/project-repository.ts';
import { quotaRoutes } from '../quotas/quota-routes.ts';
import { Quotas } from '../quotas/quotas.ts';
import { RequestCounts } from '../quotas/request-counts.ts';
import { RequestRates } from '../quotas/request-rates.ts';
import { listenForEgress } from '../secrets/secret-socket.ts';
import { openTracing } from '../tracing/open-tracing.ts';
import { composeApiKeys } from './compose-api-keys.ts';
import { composeArtifacts } from './compose-artifacts.ts';
import { composeAudit } from './compose-audit.ts';
import { composeCommands } from './compose-commands.ts';
import { composeEvents } from './compose-events.ts';
import { composeIdempotency } from './compose-idempotency.ts';
import { composePreviews } from './compose-previews.ts';
import { composeProjects } from './compose-projects.ts';
import { composeProtocols } from './compose-protocols.ts';
import { composeSandboxes } from './compose-sandboxes.ts';
import { composeSecrets } from './compose-secrets.ts';
import { composeTemplates } from './compose-templates.ts';
import { composeUsage } from './compose-usage.ts';
import { composeWebhooks } from './compose-webhooks.ts';
import { composeWorkspaceRuns } from './compose-workspace-runs.ts';
import type { Config } from './config.ts';
import { listenForClients } from './listen-for-clients.ts';

/**
 * Interval of the event loop's delay measurements. Each measurement wakes the server: at the usual 100 a second, they
 * took most of an idle server's processor time.
 */
const EVENT_LOOP_LOOK_MS = 100;

export interface Server {
  /** URL at which the server answers. */
  readonly url: string;
  /** Ends streams, lets requests finish, and leaves sandboxes running. */
  stop(): Promise<void>;
}

/**
 * Starts the server and resolves when it serves requests. If it rejects, the database is closed; the caller then ends the
 * process. `ownDriver` runs the sandboxes; by default it is that of the configuration, and tests may pass their own.
 */
export async function startServer(config: Config, log: Logger, ownDriver?: RuntimeDriver): Promise<Server> {
  const ids = randomIds;
  const sockets = runPaths(config.runDir, config.serverName);
  const isBalanced = config.serverName !== undefined;
  // Closes what is open when a later step fails.
  await using opened = new AsyncDisposableStack();
  const version = ownVersion();
  const tracing = await openTracing(config.tracing, version, log);
  opened.defer(() => tracing?.close());
  const driver = ownDriver ?? new HostdDriver(runPaths(config.runDir).hostdSocket, tracing);
  const db = await openDatabase(config.databaseUrl);
  opened.defer(() => db.destroy());
  warnOfWaiting(await migrate(db), log);
  const clock = await openClock(db);
  const outbox = new EventOutbox(db, clock, ids);
  outbox.onCommitted(logEvents(log));
  const notifications = openNotifications(db);
  opened.defer(() => notifications.close());
  const shared = { clock, ids, log, db, transactions: new Transactions(db), outbox, notifications };

  const orgs = new OrgRepository(db, clock, ids);
  const projectRecords = new SqlProjectRepository(db);
  const quotas = new Quotas({ ...shared, defaults: config.quotas });
  const counts = new RequestCounts({ ...shared, processId: ids.next('srv_') });
  const rates = new RequestRates({ quotas, counts, clock });
  const projects = composeProjects({ ...shared, limits: quotas.limits, projects: projectRecords });
  const audit = await composeAudit({ ...shared, projects: projects.access, retentionMs: config.auditRetentionMs });
  const { auditLog, refusals } = audit;
  const { serverDir } = dataPaths(config.dataDir);
  const serverId = serverIdFor(db, serverDir, ids);
  const servers = new LiveServers(db, serverId, clock);
  const apiKeys = await composeApiKeys({
    ...shared,
    orgs,
    projects: projectRecords,
    servers,
    auditLog,
    bootstrapKey: config.bootstrapApiKey,
    recordRetentionMs: config.sandboxes.recordRetentionMs,
  });
  opened.defer(() => apiKeys.stop());
  const { authenticator } = apiKeys;

  const spaceOf = (folder: string) => new DiskSpace(folder, { clock, log, reserveBytes: config.diskReserveBytes });
  const space = spaceOf(serverDir);
  const { replayMaxBytes, leaseMs } = config;
  const claims = await composeIdempotency({ ...shared, serverId, leaseMs, version, serverDir, replayMaxBytes });
  opened.defer(() => claims.close());
  const { idempotency, lease, isFenced } = claims;

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
    servers,
  });
  const { keepArtifact } = artifacts;
  const usage = composeUsage({ ...shared, driver });
  const sandboxes = composeSandboxes({
    ...shared,
    usage,
    projects: projects.access,
    quotas,
    driver,
    tracing,
    settings: config.sandboxes,
    metrics,
    keepArtifact,
    servers,
    isFenced,
  });
  const check = async (signal: AbortSignal) => {
    await sql`select 1`.execute(db);
    await sandboxes.check(signal);
  };
  const inFlight = new InFlight();
  const previews = composePreviews({
    ...shared,
    servers,
    projects: projects.access,
    quotas,
    metrics,
    sandboxes: sandboxes.core,
    previewUrl: config.previewUrl,
    isBalanced,
    isApiKey: (header) => isApiKey(header, authenticator),
  });
  opened.defer(() => previews.stop());
  const commands = composeCommands({
    ...shared,
    sandboxes: sandboxes.core,
    terminalIdleMs: config.terminalIdleMs,
    servers,
  });
  const keyWork = apiKeys.over([inFlight, previews.open]);
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
    keyOptions: { setting: config.secretsKey, file: dataPaths(config.dataDir).secretsKeyFile },
  });
  const { access } = sandboxes.core;
  const accessFiles = new AccessFiles(sandboxes.core);
  const exportArtifact = artifacts.exportArtifact({ access, files: accessFiles });
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
    files: accessFiles,
    exportArtifact,
    settings: config.sandboxes,
    serverId,
    leaseMs,
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
  const { answersE2b, answersJupyter, answersMcp, runApis } = config;
  const answered = { answersE2b, answersJupyter, answersMcp, runApis };
  const { publicUrl } = config.artifacts;
  const protocols = await composeProtocols({ ...shared, version, publicUrl, previews, ...answered });
  const hostRouters: readonly HostRouter[] = [previews.hostRouter, ...protocols.routers];
  const { signedDownloads } = artifacts;
  const { signedUploads } = workspaceRuns.archives;
  const app = await buildApp({
    ...shared,
    isBalanced,
    findHostRouter: (request) => hostRouters.find((router) => router.matches(request)),
    signedDownloads,
    signedUploads,
    routes,
    authenticator,
    idempotency,
    isFenced,
    inFlight,
    limitRequests: (credential) => rates.limitRequest(credential),
    transfers: { stallMs: config.transferStallMs },
    resultMemoryLimit: new ResultMemoryLimit({ space }),
    space,
    auditLog,
    refusals,
    metrics,
    tracing,
    version,
    check,
    readHostMetrics: driver.metrics && ((signal) => driver.metrics?.(signal) ?? Promise.resolve('')),
  });
  const tidying = tidyWhenIdle(app.server, config.idleTidyingMs, () => inFlight.size + previews.connections() > 0);
  const operator = buildOperatorApp({
    ...shared,
    orgs,
    apiKeys: apiKeys.service,
    quotas,
    reconcile: () => sandboxes.reconcile(),
    destroyAll: (announce) => sandboxes.destroyAll(announce),
    rotateSecrets: (announce) => secrets.rotateSecrets.rotate(announce),
    ...audit,
  });

  opened.defer(() => lease.stop());
  await lease.start();
  // A newer version may have removed what this one uses before it saw the lease.
  if (kindOf(db) === 'postgresql') await migrate(db);
  keyWork.start();
  const auditUpkeep = audit.start();
  void claims.learnQuota(() => inFlight.isDraining);
  await artifacts.start();
  workspaceRuns.archives.start();
  await listenForEgress(secrets.app, sockets.secretsSocket);
  await sandboxes.start();
  await commands.start();
  usage.start();
  await webhooks.start();
  await templates.start();
  await workspaceRuns.execution.start();
  await listenForOperator(operator, sockets.operatorSocket);
  const keptSocket = config.keptSocketFd === undefined ? undefined : new KeptSocket(app.server);
  const url = await listenForClients(app, config, sockets.apiSocket);
  previews.servedAt(Number(new URL(url).port));
  artifacts.servedAt(url);
  protocols.servedAt(url);
  opened.move();

  return {
    url,
    async stop() {
      using _ = await keptSocket?.leave();
      await inFlight.drain(config.drainMs);
      await previews.stop();
      await workspaceRuns.execution.stop();
      await commands.stop();
      await Promise.all([app.close(), operator.close(), secrets.app.close(), protocols.close()]);
      tidying.stop();
      await templates.stop();
      await sandboxes.stop();
      await usage.stop();
      await webhooks.stop();
      await artifacts.stop();
      await workspaceRuns.archives.stop();
      await counts.stop();
      await lease.release();
      await apiKeys.stop();
      await auditUpkeep.stop();
      await claims.close();
      await notifications.close();
      await db.destroy();
      await tracing?.close();
    },
  };
}

function warnOfWaiting({ waiting }: SchemaReport, log: Logger): void {
  if (waiting.length === 0) return;
  log.warn({ waiting }, 'migrations wait for the end of older servers; run `cloche migrate` afterwards');
}

function ownVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}
