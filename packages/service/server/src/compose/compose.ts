/** Composes the server from its parts, and starts and stops them. No other folder constructs them. */
import { runPaths } from '@cloche/layout';
import { collectGarbageWhenIdle, reportTo } from '@cloche/node-support';
import type { RuntimeDriver } from '@cloche/runtime';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { buildOperatorApp, listenForOperator } from '../features/operator/operator-app.ts';
import { listenForEgress } from '../features/secrets/secret-socket.ts';
import { ResultMemoryLimit } from '../platform/base/result-memory.ts';
import { migrate } from '../platform/db/migrate.ts';
import { serverSecret } from '../platform/db/server-secret.ts';
import { buildApp } from '../platform/http/app.ts';
import { Callers } from '../platform/http/callers.ts';
import { CheckKey } from '../platform/http/check-key.ts';
import { BearerKeys } from '../platform/http/credential-sources.ts';
import type { HostRouter } from '../platform/http/host-router.ts';
import { KeptSocket } from '../platform/http/kept-socket.ts';
import { ListCursors } from '../platform/http/list-cursors.ts';
import { Outcomes } from '../platform/http/outcomes.ts';
import { trustedProxies } from '../platform/http/trusted-proxies.ts';
import type { Credential } from '../platform/keys/credential.ts';
import { composeAccess } from './compose-access.ts';
import { composeFeatures } from './compose-features.ts';
import { composeProtocols } from './compose-protocols.ts';
import type { Config } from './config.ts';
import { listenForClients } from './listen-for-clients.ts';
import { openFoundation } from './open-foundation.ts';
import { startForgetting } from './start-forgetting.ts';
import { stopInOrder } from './stop-in-order.ts';

export interface Server {
  /** URL at which the server answers. */
  readonly url: string;
  /** Ends streams, lets requests finish, and leaves sandboxes running. */
  stop(): Promise<void>;
}

/**
 * Starts the server and resolves when it serves requests. If it rejects, the database is closed; the caller then ends
 * the process. `ownDriver` runs the sandboxes; by default it is that of the configuration, and tests may pass their
 * own.
 */
export async function startServer(config: Config, log: Logger, ownDriver?: RuntimeDriver): Promise<Server> {
  // Closes what is open when a later step fails.
  await using opened = new AsyncDisposableStack();
  const foundation = await openFoundation(config, log, ownDriver, opened);
  const { shared, coordination, driver, tracing, version } = foundation;
  const { db } = shared;
  const access = await composeAccess(config, foundation, opened);
  const { orgs, quotas, counts, rates, audit, apiKeys, claims } = access;
  const { idempotency, lease } = claims;
  const features = await composeFeatures(config, foundation, access, opened);
  const { routes, metrics, space, inFlight, sandboxes, commands, artifacts, previews, keyWork } = features;
  const { usage, webhooks, workspaceRuns, secrets, templates, mcpSessions } = features;
  const sockets = runPaths(config.runDir, config.serverName);
  const { answersE2b, answersJupyter, answersMcp, runApis } = config;
  const answered = { answersE2b, answersJupyter, answersMcp, runApis, e2b: config.e2b };
  const { publicUrl } = config.artifacts;
  const trustsProxy = trustedProxies(config.serverName !== undefined, config.trustedProxies);
  const callers = new Callers(await serverSecret(db, 'caller-addresses'), trustsProxy);
  const { authenticator } = apiKeys;
  const checkKey = new CheckKey({ sources: [new BearerKeys(authenticator)], clock: shared.clock });
  const outcomes = new Outcomes({ ...shared, metrics, inFlight });
  const gate = {
    authenticator,
    checkKey,
    callers,
    outcomes,
    inFlight,
    stallMs: config.transferStallMs,
    sandboxes: sandboxes.core.sandboxes,
    access: sandboxes.core.access,
    sandboxUse: sandboxes.core.sandboxUse,
    onBoot: sandboxes.core.onBoot,
    setSandboxTtl: sandboxes.core.setSandboxTtl,
    limitRequests: (credential: Credential) => rates.limitRequest(credential),
    auditLog: audit.auditLog,
    mcpSessions,
  };
  const protocols = await composeProtocols({ ...shared, version, publicUrl, previews, ...gate, ...answered });
  const hostRouters: readonly HostRouter[] = [previews.hostRouter, ...protocols.routers];
  const { signedDownloads } = artifacts;
  const { signedUploads } = workspaceRuns.archives;
  const app = await buildApp({
    ...shared,
    ...(trustsProxy && { trustsProxy }),
    findHostRouter: (request) => hostRouters.find((router) => router.matches(request)),
    signedDownloads,
    signedUploads,
    routes,
    authenticator,
    checkKey,
    callers,
    outcomes,
    idempotency,
    inFlight,
    limitRequests: (credential) => rates.limitRequest(credential),
    transfers: { stallMs: config.transferStallMs },
    resultMemoryLimit: new ResultMemoryLimit({ space }),
    space,
    cursors: new ListCursors(await serverSecret(db, 'list-cursors')),
    auditLog: audit.auditLog,
    refusals: audit.refusals,
    metrics,
    tracing,
    version,
    check: async (signal) => {
      await sql`select 1`.execute(db);
      return sandboxes.check(signal);
    },
    readHostMetrics: driver.metrics && ((signal) => driver.metrics?.(signal) ?? Promise.resolve('')),
  });
  const tidying = collectGarbageWhenIdle(
    app.server,
    config.idleTidyingMs,
    () => inFlight.size + previews.connections() > 0,
  );
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
  // Checked again: before this server had a lease, a newer version may have removed tables or columns that this version
  // uses.
  await migrate(db);
  await keyWork.start();
  const auditUpkeep = audit.start();
  claims.learnQuota(() => inFlight.isDraining).catch(reportTo(log));
  const forgetting = startForgetting(config, { ...shared, mcpSessions });
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
      await stopInOrder(
        [
          () => inFlight.drain(config.drainMs),
          () => previews.stop(),
          () => workspaceRuns.execution.stop(),
          () => commands.stop(),
          () => Promise.all([app.close(), operator.close(), secrets.app.close(), protocols.close()]),
          () => tidying.stop(),
          () => templates.stop(),
          () => sandboxes.stop(),
          () => usage.stop(),
          () => webhooks.stop(),
          () => artifacts.stop(),
          () => workspaceRuns.archives.stop(),
          () => counts.stop(),
          () => lease.release(),
          () => apiKeys.stop(),
          () => auditUpkeep.stop(),
          () => forgetting.stop(),
          () => claims.close(),
          () => coordination.close(),
          () => db.destroy(),
          () => tracing?.close(),
        ],
        log,
      );
    },
  };
}
