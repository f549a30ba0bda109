/** Clients that queue workspace runs in two projects, cancel some, and look how they end. */
import { type Operation, operations, type WorkspaceRunId } from '@cloche/contract';
import { composeCommands } from '../../../src/compose/compose-commands.ts';
import { composeRunExecution, composeRunRecords } from '../../../src/compose/compose-run-execution.ts';
import type { ExportArtifact } from '../../../src/features/artifacts/export-artifact.ts';
import { toWorkspaceRun } from '../../../src/features/workspace-runs/record/workspace-run.ts';
import { type Route, route } from '../../../src/platform/http/route.ts';
import { DEFAULT_PROJECT, OTHER_PROJECT } from '../../seeded-organizations.ts';
import type { Clients } from '../clients.ts';
import { watchCommands } from '../command-invariants.ts';
import type { ServerParts } from '../server-parts.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';
import { watchWorkspaceRuns } from '../workspace-run-invariants.ts';

const RUN_MS = 60_000;
const TERMINAL_IDLE_MS = 60_000;
const ARCHIVE = { format: 'tar.gz', sizeBytes: 10, sha256: 'a'.repeat(64), entries: 1 } as const;
/** Stores the archive of a run; the transfer of its bytes is not simulated. */
const storeArchive: Operation = { ...operations.startWorkspaceRun, id: 'storeArchive' };

export function openWorkspaceRuns(world: WorkloadWorld): Workload {
  const commands = watchCommands(world);
  const runs = watchWorkspaceRuns(world);
  return {
    commandStarted: commands.commandStarted,
    committed() {
      commands.committed();
      runs.committed();
    },
    unrest: () => [...commands.unrest(), ...runs.unrest()],
    compose,
    async work(clients) {
      await clients.begin();
      await Promise.all(Array.from({ length: 1 + clients.random.below(2) }, () => executeRun(clients)));
    },
  };

  async function executeRun(clients: Clients): Promise<void> {
    const { random } = clients;
    const exitCode = random.below(2);
    const program = `sleep ${random.pick([0, 50, 1_500, 9_000])}; print done; exit ${exitCode}`;
    const projectId = random.pick([DEFAULT_PROJECT, OTHER_PROJECT]);
    const body = { projectId, command: ['sh', program], timeoutMs: RUN_MS };
    const created = await clients.insist({ operation: operations.createWorkspaceRun, body, key: clients.nextKey() });
    if (created.code !== undefined) return world.violate(`no run was created: ${created.body}`);
    const params = { workspaceRunId: JSON.parse(created.body).workspaceRun.id };
    await clients.insist({ operation: storeArchive, params, key: clients.nextKey() });
    await clients.insist({ operation: operations.startWorkspaceRun, params, key: clients.nextKey() });
    const isCanceled = random.chance(0.2);
    if (isCanceled) {
      await clients.think();
      await clients.insist({ operation: operations.cancelWorkspaceRun, params, key: clients.nextKey() });
    }
    const query = { waitFor: 'finished', waitMs: 10_000 };
    for (;;) {
      const { body: text } = await clients.insist({ operation: operations.getWorkspaceRun, params, query });
      const { workspaceRun: run } = JSON.parse(text);
      if (run.finishedAt === undefined) continue;
      const wanted = exitCode === 0 ? 'succeeded' : 'failed';
      const isRight = run.status === wanted && run.exitCode === exitCode;
      if (!isRight && !(isCanceled && run.status === 'canceled')) {
        world.violate(`${run.id} with exit code ${exitCode} has ${run.status}: ${run.error?.message}`);
      }
      return;
    }
  }
}

function compose(parts: ServerParts) {
  const commands = composeCommands({ ...parts, terminalIdleMs: TERMINAL_IDLE_MS });
  const records = composeRunRecords(parts);
  const execution = composeRunExecution({
    ...parts,
    ...records,
    createCommand: commands.createCommand,
    files: parts.sandboxes.files,
    // No run of a simulation has artifacts.
    exportArtifact: {} as ExportArtifact,
    unpackArchive: { unpack: async () => undefined },
  });
  const archiveRoute: Route = route(storeArchive, async ({ call: { credential }, params }) => {
    const { workspaceRunId } = params as { workspaceRunId: WorkspaceRunId };
    const record = await records.runAccess.get(credential, workspaceRunId);
    const archived = await records.runs.transition(record, 'archive', { archive: ARCHIVE });
    return { workspaceRun: toWorkspaceRun(archived ?? record) };
  });
  return {
    routes: [...commands.routes, ...execution.routes, archiveRoute],
    async start() {
      await commands.start();
      await execution.start();
    },
  };
}
