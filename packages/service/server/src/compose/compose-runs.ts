import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { KeepArtifact } from '../artifacts/keep-artifact.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import { ChangeContext } from '../contexts/change-context.ts';
import { SqlContextRepository } from '../contexts/context-repository.ts';
import { contextRoutes } from '../contexts/context-routes.ts';
import { CreateContext } from '../contexts/create-context.ts';
import { OpenContexts } from '../contexts/open-contexts.ts';
import type { Database } from '../db/database.ts';
import { kindOf } from '../db/database-kind.ts';
import type { Transactions } from '../db/transactions.ts';
import type { Route } from '../http/route.ts';
import { LookUpRun } from '../runs/look-up-run.ts';
import { PromoteOutputs } from '../runs/promote-outputs.ts';
import { ResolveRun } from '../runs/resolve-run.ts';
import { RunCode } from '../runs/run-code.ts';
import { RunMetrics } from '../runs/run-metrics.ts';
import { runRoutes } from '../runs/run-routes.ts';
import type { Executions } from '../sandboxes/record/executions.ts';
import type { SandboxAccess } from '../sandboxes/record/sandbox-access.ts';
import type { SandboxRepository } from '../sandboxes/record/sandbox-repository.ts';
import type { AwaitSandbox } from '../sandboxes/use/await-sandbox.ts';
import type { ErrorTranslator } from '../sandboxes/use/error-translator.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import type { FindTemplates } from '../templates/custom/find-templates.ts';
import type { StartedWork } from '../usage/started-work.ts';

export interface RunsDeps {
  readonly db: Database;
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
  const isShared = kindOf(db) === 'postgresql';
  return [
    ...contextRoutes(createContext, new ChangeContext(shared)),
    ...runRoutes(runs, isShared ? new LookUpRun(db) : undefined),
  ];
}
