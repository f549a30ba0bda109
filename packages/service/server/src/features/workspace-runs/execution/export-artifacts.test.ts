import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import type { AgentFile } from '@cloche/protocol';
import type { AgentFiles } from '@cloche/runtime/agent-files';
import { longestTurn } from '@cloche/testkit/longest-turn';
import { DEFAULT_PROJECT, ORG } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { standStill } from '../../../../testing/stand-still.ts';
import { newRun, openRuns, RUN_ID, type RunsWorld, runRepositoryOf } from '../../../../testing/workspace-runs.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import { AccessFiles } from '../../files/access-files.ts';
import { ClaimedRun } from './claimed-run.ts';
import { ExportArtifacts } from './export-artifacts.ts';

const CLAIM_MS = 30_000;

let world: RunsWorld;
let claims: ClaimedRows;
let runLog: SequenceLog;
let exportArtifacts: ExportArtifacts;
beforeEach(async () => {
  world = await openRuns();
  // Their own work would claim the run.
  for (const server of world.servers) await server.stop();
  claims = new ClaimedRows(world.db, 'workspace_runs', CLAIM_MS);
  runLog = new SequenceLog(world, { keptBytes: 1_000_000 });
  const files = new AccessFiles(world.server.core);
  exportArtifacts = new ExportArtifacts({ ...world, files, runLog, claims, log: SILENT });
  const sandboxId = await world.createReady();
  await writeFile(sandboxId, 'built');
  const { settings } = newRun();
  await runRepositoryOf(world).insert(UNAUDITED, newRun({ settings: { ...settings, artifacts: ['built'] } }), 10);
  const exporting = { status: 'running' as const, step: 'exporting' as const, sandbox_id: sandboxId };
  await world.db.updateTable('workspace_runs').set(exporting).where('id', '=', RUN_ID).execute();
});
afterEach(() => world[Symbol.asyncDispose]());

async function writeFile(sandboxId: SandboxId, path: string): Promise<void> {
  const { files } = world.driver.agentOf(sandboxId);
  await files.write(path, { open: () => Readable.from(['content']) }, {});
}

/** Claims the run for a server, after the claim of the server before it has ended. */
async function claimedBy(claim: string): Promise<ClaimedRun> {
  const sentAt = performance.now();
  await world.db.updateTable('workspace_runs').set({ claimed_until: 0 }).where('id', '=', RUN_ID).execute();
  assert.equal(await claims.acquire(RUN_ID, claim, world.clock.now()), true);
  const runs = runRepositoryOf(world);
  const record = (await runs.find(RUN_ID)) ?? assert.fail();
  return new ClaimedRun(runs, record, { claim, sentAt, claimMs: CLAIM_MS });
}

const reported = async () => (await runLog.listOfType(RUN_ID, 'artifact')).map(({ data }) => data);

describe('a server that resumes late with the artifacts of a workspace run', () => {
  it('a server that resumes late with the artifacts of a workspace run creates none after another server has ended the run, so that none is counted', async () => {
    using late = await claimedBy('srv_1:a');
    const { reached, goOn } = standStill('after', world.artifacts, 'findByIdempotencyRecord');
    const refused = assert.rejects(exportArtifacts.export(late), { name: 'ClaimLostError' });
    await reached;
    using other = await claimedBy('srv_2:b');
    await other.become('cancel', { finishedAt: world.clock.now(), step: null });
    goOn();
    await refused;
    const uses = await world.quotas.list(ORG, [DEFAULT_PROJECT]);
    assert.equal(uses.find(({ quota }) => quota === 'artifactBytes')?.used, 0);
    assert.deepEqual(await reported(), []);
  });

  it('a server that resumes late with the artifacts of a workspace run does not report one that another server has reported', async () => {
    using late = await claimedBy('srv_1:a');
    const { reached, goOn } = standStill('after', world.exportArtifact, 'export');
    const refused = assert.rejects(exportArtifacts.export(late), { name: 'ClaimLostError' });
    await reached;
    using other = await claimedBy('srv_2:b');
    const [artifactId] = await exportArtifacts.export(other);
    goOn();
    await refused;
    assert.deepEqual(await reported(), [{ path: 'built', artifactId }]);
  });
});

it('patterns and names that almost match keep other work waiting hardly longer than honest ones', async () => {
  const exportOf = async (patterns: readonly string[], nameOf: (index: number) => string, claim: string) => {
    const listed = Array.from({ length: 5_000 }, (_, index): AgentFile => {
      const name = nameOf((index * 7_919) % 5_000);
      const facts = { type: 'file', sizeBytes: 0, mode: 0o644, uid: 0, gid: 0, modifiedMs: 0 } as const;
      return { path: `/workspace/${name}`, name, ...facts };
    });
    const files: Pick<AccessFiles, 'act'> = {
      act: (_call, _id, act) => act({ list: async () => listed } as unknown as AgentFiles, AbortSignal.timeout(60_000)),
    };
    const exported = new ExportArtifacts({ ...world, files, runLog, claims, log: SILENT });
    const settings = JSON.stringify({ ...newRun().settings, artifacts: patterns });
    await world.db.updateTable('workspace_runs').set({ settings }).where('id', '=', RUN_ID).execute();
    using run = await claimedBy(claim);
    const longest = await longestTurn(() => exported.export(run));
    assert.equal((await reported()).length, patterns.length);
    await world.db.deleteFrom('sequence_log_entries').execute();
    return longest;
  };
  const honest = [1, 2].map((index) => `*${'x'.repeat(124)}${index}`);
  const hostile = [1, 2].map((index) => `*${'a'.repeat(124)}b${index}`);
  await exportOf(honest, (index) => `file-${index}-`.padEnd(250, '-'), 'srv_1:a');

  const expected = await exportOf(honest, (index) => `file-${index}-`.padEnd(250, '-'), 'srv_1:b');
  const attacked = await exportOf(hostile, (index) => `${'a'.repeat(245)}${index}`, 'srv_1:c');

  assert.ok(attacked < 5 * expected, `${attacked} ms, ${expected} ms for honest ones`);
});
