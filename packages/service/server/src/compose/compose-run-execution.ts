import { LIMITS, type WorkspaceRunId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { ExportArtifact } from '../features/artifacts/export-artifact.ts';
import type { CreateCommand } from '../features/commands/create-command.ts';
import type { AccessFiles } from '../features/files/access-files.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import { SecretRepository } from '../features/secrets/secret-repository.ts';
import { CancelRun } from '../features/workspace-runs/api/cancel-run.ts';
import { RunEvents } from '../features/workspace-runs/api/run-events.ts';
import { StartRun } from '../features/workspace-runs/api/start-run.ts';
import { workspaceRunRoutes } from '../features/workspace-runs/api/workspace-run-routes.ts';
import { WorkspaceRunService } from '../features/workspace-runs/api/workspace-run-service.ts';
import { DispatchRuns } from '../features/workspace-runs/execution/dispatch-runs.ts';
import { EndRun } from '../features/workspace-runs/execution/end-run.ts';
import { ExecuteRun, type UnpackArchive } from '../features/workspace-runs/execution/execute-run.ts';
import { ExportArtifacts } from '../features/workspace-runs/execution/export-artifacts.ts';
import { LaunchSandboxOfRun } from '../features/workspace-runs/execution/launch-sandbox-of-run.ts';
import { RunCommand } from '../features/workspace-runs/execution/run-command.ts';
import { RunQueue } from '../features/workspace-runs/execution/run-queue.ts';
import { RunUpkeep } from '../features/workspace-runs/execution/run-upkeep.ts';
import { WorkspaceRunAccess } from '../features/workspace-runs/record/workspace-run-access.ts';
import { WorkspaceRunRepository } from '../features/workspace-runs/record/workspace-run-repository.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import { type Notifications, sharedChanges } from '../platform/db/notifications.ts';
import { openOwnConnection } from '../platform/db/postgres-database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import { SequenceLog } from '../platform/sequence-log/sequence-log.ts';
import type { SandboxCore } from './compose-sandboxes.ts';
import { stopInOrder } from './stop-in-order.ts';

const UPKEEP_MS = 3_600_000;
const RETRY_MS = 10_000;
/** Longest time for one renewal of the claims. After it, the renewal is repeated on another connection. */
const RENEWAL_MS = 3_000;

export interface RunRecordsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly notifications: Notifications;
  readonly clock: Clock;
}

/** Access of the other parts to the records of workspace runs. */
export type RunRecords = ReturnType<typeof composeRunRecords>;

export function composeRunRecords(deps: RunRecordsDeps) {
  const runChanges = sharedChanges<WorkspaceRunId>('workspace_run', deps.notifications);
  const appended = sharedChanges('log', deps.notifications);
  const runLog = new SequenceLog(deps, { keptBytes: LIMITS.workspaceRunOutputBytes, appended });
  const runs = new WorkspaceRunRepository({ ...deps, runLog, runChanges });
  return { runs, runLog, runChanges, runAccess: new WorkspaceRunAccess(runs) };
}

export interface RunExecutionDeps extends RunRecords, RunRecordsDeps {
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly sandboxes: SandboxCore;
  readonly createCommand: CreateCommand;
  readonly files: AccessFiles;
  readonly exportArtifact: ExportArtifact;
  readonly unpackArchive: UnpackArchive;
  readonly settings: SandboxSettings;
  readonly serverId: string;
  /** Time until other servers count this one as dead. Default: half a minute. */
  readonly leaseMs?: number;
  readonly ids: IdSource;
  readonly log: Logger;
}

export interface RunExecution {
  readonly routes: Route[];
  /** Executes queued runs, beginning with those that an earlier process of this server was executing. */
  start(): Promise<void>;
  /** Stops executing runs on this server. The commands continue in their sandboxes. Call it before `db` is closed. */
  stop(): Promise<void>;
}

export function composeRunExecution({ sandboxes: core, ...deps }: RunExecutionDeps): RunExecution {
  const { db, transactions, runs, runLog, runAccess, clock, log, settings } = deps;
  const shared = { ...core, ...deps };
  const own = openOwnConnection(db, RENEWAL_MS);
  const queue = new RunQueue({ ...shared, renewalDb: own.db });
  const claiming = { ...shared, claims: queue.claims };
  const executeRun = new ExecuteRun({
    ...shared,
    launchSandbox: new LaunchSandboxOfRun(claiming),
    runCommand: new RunCommand(shared),
    exportArtifacts: new ExportArtifacts(claiming),
    endRun: new EndRun(shared),
  });
  const dispatchRuns = new DispatchRuns({ ...shared, queue, executeRun });
  const upkeep = new RunUpkeep({ ...shared, recordRetentionMs: settings.recordRetentionMs });
  const keep = async () => {
    await upkeep.pass();
    return UPKEEP_MS;
  };
  let upkeepLoop: Loop | undefined;
  const secrets = new SecretRepository(db, transactions);
  return {
    routes: workspaceRunRoutes({
      service: new WorkspaceRunService({ ...shared, secrets }),
      startRun: new StartRun(runs, clock),
      cancelRun: new CancelRun(runs, clock, (id) => dispatchRuns.cancel(id)),
      runEvents: new RunEvents(runs, runLog),
      runAccess,
    }),
    async start() {
      upkeepLoop = new Loop('upkeep of workspace runs', keep, RETRY_MS, log);
      await dispatchRuns.start();
    },
    async stop() {
      await stopInOrder([() => dispatchRuns.stop(), () => upkeepLoop?.stop(), () => own.close()], log);
    },
  };
}
