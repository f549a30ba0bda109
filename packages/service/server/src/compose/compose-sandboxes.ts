import type { MemoryMode, OrgId, SandboxId } from '@cloche/contract';
import type { HostWarning, ReconcileReport } from '@cloche/protocol';
import type { RuntimeDriver } from '@cloche/runtime';
import { AgentConnections } from '@cloche/runtime/agent-connections';
import { WITHOUT_METERING } from '@cloche/runtime/without-parts';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { KeepArtifact } from '../features/artifacts/keep-artifact.ts';
import { AccessFiles } from '../features/files/access-files.ts';
import { fileRoutes } from '../features/files/file-routes.ts';
import type { StartedWork } from '../features/metering/started-work.ts';
import { MeasureSandboxes } from '../features/metrics/measure-sandboxes.ts';
import { metricsRoutes } from '../features/metrics/metrics-routes.ts';
import type { OnMemoryLost, OnReady } from '../features/pauses/disk-moves.ts';
import type { DiskSweep } from '../features/pauses/disk-sweep.ts';
import type { CatchUp } from '../features/pauses/freeze-moves.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { Executions } from '../features/sandbox-records/executions.ts';
import type { SandboxRecord } from '../features/sandbox-records/sandbox.ts';
import { SandboxAccess } from '../features/sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../features/sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import { SqlSandboxRepository } from '../features/sandbox-records/sql-sandbox-repository.ts';
import { ListSandboxes } from '../features/sandboxes/api/list-sandboxes.ts';
import { sandboxRoutes } from '../features/sandboxes/api/sandbox-routes.ts';
import { AbandonedLaunches } from '../features/sandboxes/lifecycle/abandoned-launches.ts';
import { CreateSandbox } from '../features/sandboxes/lifecycle/create-sandbox.ts';
import { DestroySandbox } from '../features/sandboxes/lifecycle/destroy-sandbox.ts';
import { EndedRecords } from '../features/sandboxes/lifecycle/ended-records.ts';
import { ForgetEnded } from '../features/sandboxes/lifecycle/forget-ended.ts';
import { LaunchSandbox } from '../features/sandboxes/lifecycle/launch-sandbox.ts';
import { NamedSandboxes } from '../features/sandboxes/lifecycle/named-sandboxes.ts';
import { Reconciler } from '../features/sandboxes/lifecycle/reconciler.ts';
import { SandboxMetrics } from '../features/sandboxes/lifecycle/sandbox-metrics.ts';
import { SetSandboxTtl } from '../features/sandboxes/lifecycle/set-sandbox-ttl.ts';
import { UpdateSandbox } from '../features/sandboxes/lifecycle/update-sandbox.ts';
import { AwaitSandbox } from '../features/sandboxes/use/await-sandbox.ts';
import { ErrorTranslator } from '../features/sandboxes/use/error-translator.ts';
import { SandboxUse } from '../features/sandboxes/use/sandbox-use.ts';
import { SecretRepository } from '../features/secrets/secret-repository.ts';
import { CustomTemplateRepository } from '../features/template-catalogue/custom/custom-template-repository.ts';
import { FindTemplates } from '../features/template-catalogue/custom/find-templates.ts';
import { TemplateCatalogue } from '../features/template-catalogue/template-catalogue.ts';
import { SqlTemplateRepository } from '../features/template-catalogue/template-repository.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { AuditLog } from '../platform/audit-log/audit-log.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Loop } from '../platform/base/loop.ts';
import { UNAUDITED } from '../platform/call/call.ts';
import type { Database } from '../platform/db/database.ts';
import { sharedChanges } from '../platform/db/notifications.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import type { Tracing } from '../platform/tracing/tracing.ts';
import { composePauses } from './compose-pauses.ts';
import { composeReaper } from './compose-reaper.ts';
import { composeRuns } from './compose-runs.ts';
import type { Usage } from './compose-usage.ts';
import type { Coordination } from './coordination.ts';
import { startSandboxJobs } from './sandbox-jobs.ts';
import { stopInOrder } from './stop-in-order.ts';

type Coordinated =
  | 'servers'
  | 'clock'
  | 'notifications'
  | 'isFenced'
  | 'watchOthers'
  | 'endsSilentSandboxes'
  | 'sandboxActivity';

export interface SandboxesDeps extends Pick<Coordination, Coordinated> {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly auditLog: Pick<AuditLog, 'append'>;
  readonly tracing?: Tracing | undefined;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly driver: RuntimeDriver;
  readonly settings: SandboxSettings;
  readonly metrics: Registry;
  /** Stores outputs of runs that become artifacts. */
  readonly keepArtifact: KeepArtifact;
  readonly usage: Pick<Usage, 'startedWork' | 'usages'>;
}

/** Access of other features to sandboxes. */
export interface SandboxCore {
  readonly sandboxes: SandboxRepository;
  readonly access: SandboxAccess;
  readonly sandboxUse: SandboxUse;
  readonly awaitSandbox: AwaitSandbox;
  /** Registers changes that are made in the agents of sandboxes when they wake. */
  readonly onWake: (catchUp: CatchUp) => void;
  /** Registers what the agent of a sandbox that boots from its files gets, before the first request. */
  readonly onBoot: (prepare: CatchUp) => void;
  /** Registers what ends with the memory of a sandbox, whose files alone are kept from then on. */
  readonly onMemoryLost: (end: OnMemoryLost) => void;
  /** Registers what begins with each sandbox that has a start command, when it is ready with a new memory. */
  readonly onReady: (begin: OnReady) => void;
  readonly executions: Executions;
  readonly startedWork: StartedWork;
  readonly createSandbox: CreateSandbox;
  readonly destroySandbox: DestroySandbox;
  readonly setSandboxTtl: SetSandboxTtl;
  readonly customTemplates: CustomTemplateRepository;
  readonly findTemplates: FindTemplates;
  readonly files: AccessFiles;
  /** Whether this server has lost its lease. */
  readonly isFenced: () => boolean;
}

/** The composed parts of sandboxes, contexts and runs. */
export interface Sandboxes {
  readonly core: SandboxCore;
  readonly routes: Route[];
  readonly diskSweep: DiskSweep;
  /** Reads the catalogue and starts the jobs. Retries a runtime that does not answer yet, without failing. */
  start(): Promise<void>;
  /**
   * Stops the jobs and undoes launches in progress, which other servers take over. Running sandboxes continue. Call it
   * when no request is active.
   */
  stop(): Promise<void>;
  /** Runs one reconciliation now. Rejects when the runtime does not answer. */
  reconcile(): Promise<ReconcileReport>;
  /**
   * Destroys every sandbox with `platform_cleanup`. Returns their number.
   *
   * @param announce called for each organization that has sandboxes, before any of them is destroyed
   */
  destroyAll(announce: (orgId: OrgId) => Promise<void>): Promise<number>;
  /** Returns what keeps sandboxes from the network. Rejects when sandboxes cannot be launched now. */
  check(signal: AbortSignal): Promise<readonly HostWarning[]>;
}

export function composeSandboxes(deps: SandboxesDeps): Sandboxes {
  const { db, transactions, outbox, projects, clock, ids, log, driver, settings, servers, isFenced } = deps;
  const { usages, startedWork } = deps.usage;
  const changes = sharedChanges<SandboxId>('sandbox', deps.notifications);
  const sandboxActivity = deps.sandboxActivity(changes);
  const { executions, activity } = sandboxActivity;
  const stored = { db, transactions, outbox, changes, activity: executions, usages };
  const { pauseRetentionMs } = settings;
  const sandboxes = new SqlSandboxRepository({ ...stored, clock, serverId: servers.own, pauseRetentionMs });
  const connections = new AgentConnections(driver, (instance) => checkOn(instance.sandboxId));
  const catalogue = new TemplateCatalogue(new SqlTemplateRepository(db), driver, clock);
  const customTemplates = new CustomTemplateRepository(db, transactions);
  const findTemplates = new FindTemplates(catalogue, customTemplates);
  const metrics = new SandboxMetrics(deps.metrics);
  outbox.onCommitted((event) => metrics.count(event));

  const { launchTimeoutMs } = settings;
  const launchSandbox = new LaunchSandbox({
    ...{ sandboxes, driver, connections, clock, log, metrics, tracing: deps.tracing },
    ...{ launchTimeoutMs, serverId: servers.own },
    makeRoom: (launch, signal) => pauses.makeRoom.for(launch, signal),
  });
  const abandonedLaunches = new AbandonedLaunches({ sandboxes, launchSandbox, servers, log });
  const instances = { sandboxes, driver, connections, executions, clock, log };
  const removeDisks = (record: SandboxRecord) => pauses.disks.beginRemoval(record);
  const destroySandbox = new DestroySandbox({ ...instances, launchSandbox, usages, removeDisks });
  const access = new SandboxAccess(sandboxes);
  const awaitSandbox = new AwaitSandbox(sandboxes, changes, activity);
  const setSandboxTtl = new SetSandboxTtl(access, sandboxes, clock);
  const pauses = composePauses({
    ...instances,
    ...{ db, changes, access, servers, quotas: deps.quotas, auditLog: deps.auditLog, registry: deps.metrics },
    checkOn: (sandboxId) => checkOn(sandboxId),
    destroySandbox,
    awaitLaunch: (record, limit, caller) => awaitSandbox.launched(record, limit, caller),
    setTtl: (call, id, ttlMs) => setSandboxTtl.set(call, id, ttlMs),
    retentionMs: pauseRetentionMs,
  });
  const { wakeSandbox, pauseSandbox, resumeSandbox } = pauses;
  const forgetEnded = new ForgetEnded(connections, executions);
  const reconciler = new Reconciler({
    ...{ sandboxes, driver, abandonedLaunches, destroySandbox, forgetEnded, log },
    pauseMoves: pauses.moves,
    endsSilentSandboxes: deps.endsSilentSandboxes,
  });
  // A connected agent whose instance crashes is noticed at once. The periodic pass finds all other crashes.
  const checkOn = (sandboxId: string) => {
    reconciler.check(sandboxId).catch((error) => log.warn({ err: error, sandboxId }, 'a sandbox could not be checked'));
  };
  const reaper = composeReaper({
    ...{ ...instances, destroySandbox, isFenced, settings, automaticPauses: pauses.automaticPauses },
    lastUses: sandboxActivity.lastUses(sandboxes),
  });
  const canPause = (memory?: MemoryMode) => pauses.support.byPolicy(memory);
  const createSandbox = new CreateSandbox({
    ...{ sandboxes, projects, quotas: deps.quotas, launchSandbox, clock, ids, settings, canPause },
    secrets: new SecretRepository(db, transactions),
    templates: findTemplates,
  });
  const updateSandbox = new UpdateSandbox({ ...deps, access, sandboxes, canPause });
  const namedSandboxes = new NamedSandboxes({ sandboxes, projects, createSandbox, awaitSandbox, settings });
  const listSandboxes = new ListSandboxes(sandboxes, projects, activity);
  const errorTranslator = new ErrorTranslator(sandboxes, destroySandbox, reconciler, log);
  const used = { access, awaitSandbox, connections, errorTranslator, wakeSandbox };
  const sandboxUse = new SandboxUse({ ...used, lookAtFence: isFenced });
  const core = {
    sandboxes,
    access,
    sandboxUse,
    awaitSandbox,
    onWake: (catchUp: CatchUp) => pauses.freezeMoves.onWake(catchUp),
    onBoot: (prepare: CatchUp) => pauses.diskMoves.onBoot(prepare),
    onMemoryLost: (end: OnMemoryLost) => pauses.diskMoves.onMemoryLost(end),
    onReady: (begin: OnReady) => {
      for (const each of [launchSandbox, pauses.diskMoves]) each.onReady(begin);
    },
    executions,
    startedWork,
    createSandbox,
    destroySandbox,
    setSandboxTtl,
    customTemplates,
    findTemplates,
    files: new AccessFiles({ sandboxUse, executions }),
    isFenced,
  };
  const reconcile = async () => {
    const report = await reconciler.reconcile();
    await sandboxActivity.tidy();
    return report;
  };
  const takeOver = () => abandonedLaunches.takeOver();
  const settleMoves = async () => pauses.moves.settleOf(await sandboxes.listThat('isMoving'));
  let loops: Pick<Loop, 'stop'>[] = [];
  const { diskSweep } = pauses;
  return {
    ...{ core, diskSweep },
    routes: [
      ...sandboxRoutes({
        ...{ access, awaitSandbox, setSandboxTtl, pauseSandbox, resumeSandbox, destroySandbox, activity },
        ...{ createSandbox, namedSandboxes, listSandboxes, updateSandbox },
      }),
      ...metricsRoutes(
        new MeasureSandboxes({ sandboxes, projects, sandboxUse, metering: driver.metering ?? WITHOUT_METERING }),
      ),
      ...composeRuns({ ...deps, ...core, errorTranslator, templates: findTemplates }),
      ...fileRoutes(core.files),
    ],
    async start() {
      await catalogue.load();
      // Lets the first creation use the newest version; the job below repeats it.
      await catalogue.sync().catch((error) => log.warn({ err: error }, 'the runtime does not answer yet'));
      await sandboxActivity.start();
      loops = startSandboxJobs({
        catalogue,
        reconcile,
        reaper,
        endedRecords: new EndedRecords(db),
        retentionNotices: pauses.retentionNotices,
        outbox,
        ...{ takeOver, settleMoves, diskSweep, watchOthers: deps.watchOthers },
        wakeForRequests: pauses.wakeForRequests,
        ...{ settings, isFenced },
        clock,
        log,
      });
    },
    async stop() {
      await stopInOrder(
        [
          () => Promise.all(loops.splice(0).map((loop) => loop.stop())),
          () => launchSandbox.handOver(),
          () => pauses.stop(),
          () => sandboxActivity.stop(),
          () => connections.closeAll(),
        ],
        log,
      );
    },
    reconcile,
    async destroyAll(announce) {
      const all = await sandboxes.listThat('keepsProject');
      for (const orgId of new Set(all.map((record) => record.orgId))) await announce(orgId);
      const ended = await Promise.allSettled(
        all.map((record) => destroySandbox.destroy(UNAUDITED, record.id, 'platform_cleanup')),
      );
      const refused = ended.find((each) => each.status === 'rejected');
      if (refused) throw refused.reason;
      return all.length;
    },
    async check(signal) {
      const warnings = await driver.check(signal);
      // A server that started before the runtime would otherwise be ready without a template version.
      if (catalogue.list().length === 0) await catalogue.sync();
      return warnings;
    },
  };
}
