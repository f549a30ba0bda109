/** What always holds for the workspace runs of a simulation. */
import { MOST_WORKSPACE_RUNS } from './invariants.ts';
import type { WorkloadWorld } from './workload.ts';

export function watchWorkspaceRuns({ database, violate }: WorkloadWorld) {
  /** Runs that a server has claimed. */
  const claimed = new Set<unknown>();
  const finished = new Map<unknown, unknown>();

  return {
    committed() {
      const rows = database.read('select id, project_id, status, step, queued_at, finished_at from workspace_runs');
      const waits = (row: (typeof rows)[number]) => row.status === 'queued' && row.step === null;
      for (const row of rows) {
        const { id, status, step } = row;
        const first = finished.get(id) ?? (row.finished_at === null ? undefined : status);
        if (first !== undefined) finished.set(id, first);
        if (first !== undefined && first !== status) violate(`${id} is ${first}, and then ${status}`);
        if (step === null || claimed.has(id)) continue;
        claimed.add(id);
        const earlier = rows.find(
          (other) =>
            waits(other) && other.project_id === row.project_id && Number(other.queued_at) < Number(row.queued_at),
        );
        if (earlier) violate(`${id} begins before ${earlier.id}, which was queued earlier`);
      }
      const running = rows.filter(({ status }) => status === 'running').length;
      if (running > MOST_WORKSPACE_RUNS) violate(`${running} workspace runs, ${MOST_WORKSPACE_RUNS} may`);
    },
    unrest(): string[] {
      const open = database.read(
        "select id, status, step from workspace_runs where status in ('queued', 'running') or step is not null",
      );
      const left = database.read(
        "select id from sandboxes where status in ('creating', 'starting', 'ready', 'expiring') and metadata like '%workspaceRun%'",
      );
      return [
        ...open.map(({ id, status, step }) => `${id} is ${status}, at the step ${step}`),
        ...left.map(({ id }) => `the sandbox ${id} of a run is left`),
      ];
    },
  };
}
