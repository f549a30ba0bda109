/** Servers whose PostgreSQL is lost, and which go on with its standby. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import {
  createEmptyDatabase,
  openSuperuser,
  startPrimary,
  startStandby,
  urlOf,
} from '../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { StallingProxy } from '../../testing/stalling-proxy.ts';
import { WholeServers } from '../../testing/whole-servers.ts';

/** Longer than a lease, on a machine that is busy. */
const PATIENCE_MS = 120_000;
const DATABASE = 'failover';
/** Codes of errors after which a request is repeated. */
const PASSING = new Set<unknown>(['unavailable', 'idempotency_request_in_progress']);
const CODE = { code: 'print done', language: 'python' };

describe('servers whose database fails over to a standby', { skip: NEEDS_POSTGRES }, () => {
  it('servers whose database fails over to a standby lose nothing that was replicated synchronously, and of the rest what was not replicated', async () => {
    await using opened = new AsyncDisposableStack();
    const primary = await startPrimary();
    opened.defer(() => primary.close());
    await createEmptyDatabase(primary.sockets, DATABASE);
    const standby = await startStandby(primary);
    opened.defer(() => standby.close());
    const atPrimary = await openSuperuser(primary.sockets);
    opened.defer(() => atPrimary.end());
    const atStandby = await openSuperuser(standby.sockets);
    opened.defer(() => atStandby.end());
    await using name = await StallingProxy.open(primary.sockets);
    const isSo = async (query: string) => (await atPrimary.query(query)).rowCount !== 0;
    const set = async (setting: string, at = atPrimary) => {
      await at.query(`alter system set ${setting}`);
      await at.query('select pg_reload_conf()');
    };

    await set("synchronous_standby_names = '*'");
    const isSynchronous = () => isSo("select from pg_stat_replication where sync_state = 'sync'");
    await eventually(isSynchronous, { within: PATIENCE_MS, because: 'commits wait for the standby' });
    await using servers = await WholeServers.openFor(urlOf(name.folder, DATABASE), 2, {
      CLOCHE_RECONCILE_INTERVAL_MS: '1000',
    });
    const sandboxId = await servers.readySandbox();
    const executed: string[] = [];
    servers.driver.agentOf(sandboxId).onExecution = ({ recordId }) => executed.push(recordId);
    const send = (server: number, key: string) =>
      servers.call(server, 'POST', `/v1/sandboxes/${sandboxId}/code/runs`, CODE, key);
    /** Repeats a run as clients do, until it has a final answer. */
    const run = async (server: number, key: string) => {
      let answer = await send(server, key);
      const isFinal = async () => {
        if (!PASSING.has(answer.body.error?.code)) return true;
        answer = await send(server, key);
        return false;
      };
      await eventually(isFinal, { within: PATIENCE_MS, because: 'the run has a final answer' });
      return answer;
    };
    const works = (server: number) => {
      const isReady = async () => (await servers.call(server, 'GET', '/readyz')).status === 200;
      return eventually(isReady, { within: PATIENCE_MS, because: 'the server works' });
    };
    const replicated = await run(0, 'replicated');
    assert.equal(replicated.status, 200);
    assert.equal(executed.length, 1);

    await set("primary_conninfo = ''", atStandby);
    const isCut = async () => !(await isSo('select from pg_stat_replication'));
    await eventually(isCut, { within: PATIENCE_MS, because: 'nothing is replicated any more' });
    const unreplicated = run(1, 'not replicated');
    const waits = () => isSo("select from pg_stat_activity where wait_event = 'SyncRep'");
    await eventually(waits, { within: PATIENCE_MS, because: 'a commit waits for the standby' });
    assert.equal(executed.length, 1, 'nothing is executed before its record is replicated');
    await set("synchronous_standby_names = ''");
    assert.equal((await unreplicated).status, 200);
    await works(0);
    const lost = await servers.readySandbox();
    const held = () => servers.driver.instances().map((instance) => instance.sandboxId);
    assert.deepEqual(new Set(held()), new Set([sandboxId, lost]));
    const executions = executed.length;

    await atPrimary.end();
    await primary.close();
    await atStandby.query('select pg_promote()');
    name.leadTo(standby.sockets);
    for (const server of [0, 1]) {
      await works(server);
      assert.deepEqual((await run(server, 'replicated')).body, replicated.body);
    }
    assert.equal(executed.length, executions, 'what was replicated is not executed again');
    assert.equal((await run(0, 'not replicated')).status, 200);
    assert.equal(executed.length, executions + 1, 'what was not replicated is executed again');
    const isUnknown = async () => (await servers.call(0, 'GET', `/v1/sandboxes/${lost}`)).status === 404;
    await eventually(isUnknown, { because: 'the sandbox has no record' });
    const isEnded = () => !held().includes(lost);
    await eventually(isEnded, { within: PATIENCE_MS, because: 'a sandbox without a record is ended' });
    assert.deepEqual(held(), [sandboxId]);
  });
});
