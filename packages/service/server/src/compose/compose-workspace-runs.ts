import type { Registry } from 'prom-client';
import { addRunQueueMetrics } from '../features/workspace-runs/execution/run-queue-metrics.ts';
import type { Route } from '../platform/http/route.ts';
import { type ArchiveStorage, type Archives, composeArchives } from './compose-archives.ts';
import {
  composeRunExecution,
  composeRunRecords,
  type RunExecution,
  type RunExecutionDeps,
  type RunRecords,
} from './compose-run-execution.ts';

export interface WorkspaceRunsDeps extends ArchiveStorage, Omit<RunExecutionDeps, keyof RunRecords | 'unpackArchive'> {
  readonly metrics: Registry;
}

export interface WorkspaceRuns {
  readonly routes: Route[];
  readonly archives: Archives;
  readonly execution: RunExecution;
}

export async function composeWorkspaceRuns(deps: WorkspaceRunsDeps): Promise<WorkspaceRuns> {
  const records = composeRunRecords(deps);
  const archives = await composeArchives({ ...deps, ...records });
  addRunQueueMetrics(deps);
  const execution = composeRunExecution({ ...deps, ...records, unpackArchive: archives.unpackArchive });
  return { routes: [...execution.routes, ...archives.routes], archives, execution };
}
