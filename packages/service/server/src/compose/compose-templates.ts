import type { TemplateBuildId } from '@cloche/contract';
import type { RuntimeDriver } from '@cloche/runtime';
import { WITHOUT_METERING, WITHOUT_VERSIONS } from '@cloche/runtime/without-parts';
import type { Logger } from 'pino';
import type { ArtifactContents } from '../features/artifacts/artifact-contents.ts';
import type { ArtifactRepository } from '../features/artifacts/artifact-repository.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import { SecretRepository } from '../features/secrets/secret-repository.ts';
import { buildRoutes } from '../features/templates/api/build-routes.ts';
import { BuildService } from '../features/templates/api/build-service.ts';
import { InspectImage } from '../features/templates/api/inspect-image.ts';
import { PlanOrigin } from '../features/templates/api/plan-origin.ts';
import { templateRoutes } from '../features/templates/api/template-routes.ts';
import { TemplateService } from '../features/templates/api/template-service.ts';
import { BuildLog } from '../features/templates/builds/build-log.ts';
import { BuildQueue } from '../features/templates/builds/build-queue.ts';
import { BuildRepository } from '../features/templates/builds/build-repository.ts';
import { BuildSandbox } from '../features/templates/builds/build-sandbox.ts';
import { EndBuild } from '../features/templates/builds/end-build.ts';
import { RemoveVersions } from '../features/templates/builds/remove-versions.ts';
import { RunBuild } from '../features/templates/builds/run-build.ts';
import { RunStep } from '../features/templates/builds/run-step.ts';
import { RunSteps } from '../features/templates/builds/run-steps.ts';
import { StepCache } from '../features/templates/builds/step-cache.ts';
import type { ImageLayers } from '../features/templates/layers/image-layers.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import { ClaimedRows } from '../platform/db/claimed-rows.ts';
import type { Database } from '../platform/db/database.ts';
import { type Notifications, sharedChanges } from '../platform/db/notifications.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import type { SandboxCore } from './compose-sandboxes.ts';

/** Duration of a claim to a build. The server that runs the build prolongs it every second. */
const CLAIM_MS = 60_000;
const SWEEP_MS = 3_600_000;

export interface TemplatesDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly notifications: Notifications;
  readonly sandboxes: SandboxCore;
  readonly artifacts: Pick<ArtifactRepository, 'find'>;
  readonly contents: Pick<ArtifactContents, 'read'>;
  readonly driver: RuntimeDriver;
  readonly quotas: Quotas;
  readonly serverId: string;
  readonly log: Logger;
  readonly settings: SandboxSettings;
  readonly projects: ProjectAccess;
  readonly imageLayers: Pick<ImageLayers, 'bring' | 'sweep'>;
  /** Registry of images whose names have none. */
  readonly defaultRegistry: string;
}

export interface Templates {
  readonly routes: Route[];
  /** Starts to run queued builds. */
  start(): Promise<void>;
  /** Interrupts builds. They continue at the next start. Call it before sandboxes are stopped. */
  stop(): Promise<void>;
}

/** Composes the templates, curated ones and those of organizations, and their builds. */
export function composeTemplates({ sandboxes: core, ...deps }: TemplatesDeps): Templates {
  const { customTemplates: templates, findTemplates } = core;
  const buildLog = new BuildLog(deps, sharedChanges('log', deps.notifications));
  const changes = sharedChanges<TemplateBuildId>('template_build', deps.notifications);
  const builds = new BuildRepository(deps.db, changes);
  const claims = new ClaimedRows(deps.db, 'template_builds', CLAIM_MS);
  const buildSandbox = new BuildSandbox({ ...core, claims, clock: deps.clock, log: deps.log });
  const endBuild = new EndBuild({ ...deps, builds, buildLog, buildSandbox });
  const cache = new StepCache(deps.db);
  const { metering = WITHOUT_METERING, versions = WITHOUT_VERSIONS } = deps.driver;
  const parts = {
    ...deps,
    ...core,
    metering,
    versions,
    builds,
    templates,
    buildSandbox,
    endBuild,
    claims,
    cache,
    changes,
  };
  const runStep = new RunStep(parts);
  const runSteps = new RunSteps({ ...parts, runStep });
  const buildQueue = new BuildQueue({ ...parts, runBuild: new RunBuild({ ...parts, runSteps, buildLog }) });
  const wake = () => buildQueue.wake();
  const secrets = new SecretRepository(deps.db, deps.transactions);
  const planOrigin = new PlanOrigin({ ...parts, secrets });
  const buildService = new BuildService({ ...parts, buildLog, wake, planOrigin });
  const inspectImage = new InspectImage({ ...core, planOrigin, runStep });
  const { catalogue } = findTemplates;
  const service = new TemplateService({ ...deps, catalogue, templates, builds, buildService });
  const removeVersions = new RemoveVersions(parts);
  const sweep = async () => {
    const before = deps.clock.now() - deps.settings.recordRetentionMs;
    const removed = await removeVersions.sweep(before);
    if (removed > 0) deps.log.info({ removed }, 'unused template versions removed');
    await deps.imageLayers.sweep(before);
    return SWEEP_MS;
  };
  let sweeping: Loop | undefined;
  return {
    routes: [
      ...templateRoutes(service),
      ...buildRoutes({ templates: service, builds: buildService, logs: buildLog, inspectImage }),
    ],
    async start() {
      sweeping = new Loop('unused template versions', sweep, SWEEP_MS, deps.log);
      await buildQueue.start();
    },
    async stop() {
      await Promise.all([sweeping?.stop(), buildQueue.stop()]);
    },
  };
}
