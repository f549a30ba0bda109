/** Workspace runs of a server whose connections to the database stand still, beside another server. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { orAbort } from '@cloche/node-support';
import type { AgentFiles, ArchiveSource } from '@cloche/runtime/agent-files';
import { eventually } from '@cloche/testkit/eventually';
import { sendTo } from '../../../../testing/archive-uploads.ts';
import { digestOf, EMPTY_TAR } from '../../../../testing/archives.ts';
import { SOCKETS } from '../../../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../../../testing/servers.ts';
import { StallingProxy } from '../../../../testing/stalling-proxy.ts';
import { testDatabaseSettings } from '../../../../testing/test-database.ts';
import { WholeServers } from '../../../../testing/whole-servers.ts';

const LEASE_MS = 6_000;
const CUT_OFF = 0;

describe('a workspace run of a server that is cut off from the database', { skip: NEEDS_POSTGRES }, () => {
  it('a workspace run of a server that is cut off from the database is stopped there in time, and another server sends its archive as a later attempt', async () => {
    await using proxy = await StallingProxy.open(process.env[SOCKETS] ?? '');
    const { CLOCHE_DATABASE_URL: url = '' } = await testDatabaseSettings();
    const stalling = url.replace(/host=.*$/, `host=${encodeURIComponent(proxy.folder)}`);
    await using servers = await WholeServers.openFor(stalling, 1, {
      CLOCHE_SERVER_LEASE_MS: String(LEASE_MS),
      CLOCHE_ARTIFACTS_URL: pathToFileURL(`${proxy.folder}/artifacts`).href,
    });
    // Servers that are cut off take long to stop.
    using _ = { [Symbol.dispose]: () => proxy.resume() };
    const seen: unknown[] = [];
    let stoppedAfterMs = 0;
    let stalledAt = 0;
    const unarchive = async (_path: string, { attempt }: ArchiveSource, signal: AbortSignal) => {
      seen.push(attempt);
      if (seen.length > 1) return {};
      await orAbort(new Promise(() => undefined), signal).finally(() => {
        stoppedAfterMs = performance.now() - stalledAt;
        seen.push('stopped');
      });
    };
    const connect = servers.driver.connect.bind(servers.driver);
    servers.driver.connect = async (...request) => ({
      ...(await connect(...request)),
      // Sound: a run without artifacts uses nothing else.
      files: { unarchive } as unknown as AgentFiles,
    });

    const runId = await startRun(servers);
    await eventually(() => seen.length === 1, { because: 'the server sends the archive' });
    const other = await servers.start(url);
    proxy.stall();
    stalledAt = performance.now();
    await eventually(() => seen.length === 3, { because: 'the other server sends the archive' });
    assert.deepEqual(seen, [{ runId, attempt: 1 }, 'stopped', { runId, attempt: 2 }]);
    assert.ok(stoppedAfterMs < LEASE_MS, String(stoppedAfterMs));

    const isOver = async () => {
      const { body } = await servers.call(other, 'GET', `/v1/workspace-runs/${runId}`);
      return body.workspaceRun.status === 'succeeded';
    };
    await eventually(isOver, { because: 'the run goes on' });
  });
});

/** Starts a run with an empty archive on the first server, and returns its id. */
async function startRun(servers: WholeServers): Promise<string> {
  const post = async (path: string, body?: object) => {
    const answer = await servers.call(CUT_OFF, 'POST', path, body, path);
    assert.ok(answer.status < 300, answer.text);
    return answer.body;
  };
  const { id } = (await post('/v1/workspace-runs', { command: ['sh', 'print x'] })).workspaceRun;
  const { transfer } = await post(`/v1/workspace-runs/${id}/archive-transfer`, {
    ...digestOf(EMPTY_TAR),
    format: 'tar',
  });
  assert.ok((await sendTo(transfer, EMPTY_TAR)).ok);
  await post(`/v1/workspace-runs/${id}/archive/finalize`);
  await post(`/v1/workspace-runs/${id}/start`);
  return id;
}
