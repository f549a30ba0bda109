import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { KeepArtifact } from '../features/artifacts/keep-artifact.ts';
import { ChangeContext } from '../features/contexts/change-context.ts';
import { SqlContextRepository } from '../features/contexts/context-repository.ts';
import { contextRoutes } from '../features/contexts/context-routes.ts';
import { CreateContext } from '../features/contexts/create-context.ts';
import { OpenContexts } from '../features/contexts/open-contexts.ts';
import type { StartedWork } from '../features/metering/started-work.ts';
import type { CatchUp } from '../features/pauses/freeze-moves.ts';
import { LookUpRun } from '../features/runs/look-up-run.ts';
import { PromoteOutputs } from '../features/runs/promote-outputs.ts';
import { ResolveRun } from '../features/runs/resolve-run.ts';
import { RunCode } from '../features/runs/run-code.ts';
import { RunMetrics } from '../features/runs/run-metrics.ts';
import { runRoutes } from '../features/runs/run-routes.ts';
import type { Executions } from '../features/sandbox-records/executions.ts';
import type { SandboxAccess } from '../features/sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../features/sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import type { AwaitSandbox } from '../features/sandboxes/use/await-sandbox.ts';
import type { ErrorTranslator } from '../features/sandboxes/use/error-translator.ts';
import type { SandboxUse } from '../features/sandboxes/use/sandbox-use.ts';
import type { FindTemplates } from '../features/template-catalogue/custom/find-templates.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Database } from '../platform/db/database.ts';
import { answersOverNetwork } from '../platform/db/round-trips.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';

export interface RunsDeps {
  readonly db: Database;
  readonly settings: Pick<SandboxSettings, 'pauseRetentionMs'>;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly sandboxes: SandboxRepository;
  readonly access: SandboxAccess;
  readonly sandboxUse: SandboxUse;
  readonly awaitSandbox: AwaitSandbox;
  readonly errorTranslator: ErrorTranslator;
  readonly executions: Executions;
  readonly startedWork: StartedWork;
  readonly templates: FindTemplates;
  readonly onWake: (catchUp: CatchUp) => void;
  /** Stores outputs of runs that become artifacts. */
  readonly keepArtifact: KeepArtifact;
}

/** Composes contexts and code runs. Returns their routes. */
export function composeRuns({ metrics, keepArtifact, ...deps }: RunsDeps): Route[] {
  const { db, access } = deps;
  const contexts = new SqlContextRepository(db);
  const shared = { ...deps, contexts, openContexts: new OpenContexts() };
  const createContext = new CreateContext(shared);
  const runs = new RunCode({
    ...shared,
    resolveRun: new ResolveRun(access, contexts, createContext),
    promoteOutputs: new PromoteOutputs(keepArtifact),
    metrics: new RunMetrics(metrics),
  });
  const changeContext = new ChangeContext(shared);
  deps.onWake((sandbox, agent, signal) => changeContext.closeDeleted(sandbox, agent, signal));
  return [
    ...contextRoutes(createContext, changeContext),
    ...runRoutes(runs, answersOverNetwork(db) ? new LookUpRun(db, deps.settings.pauseRetentionMs) : undefined),
  ];
}
