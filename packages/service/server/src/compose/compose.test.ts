import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { dataPaths } from '@cloche/layout';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from 'pg';
import { pino } from 'pino';
import { BOOTSTRAP_KEY } from '../../testing/bootstrap-key.ts';
import { callApi } from '../../testing/call-api.ts';
import { SERVER_SETTINGS } from '../../testing/server-settings.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import { type Server, startServer } from './compose.ts';
import { readConfig } from './config.ts';

let folder: string;
let driver: FakeRuntimeDriver;
let database: Record<string, string>;
let server: Server;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-server-'));
  driver = new FakeRuntimeDriver();
  database = await testDatabaseSettings(join(folder, 'data'));
  server = await start();
});
afterEach(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

function start(env: Record<string, string> = {}): Promise<Server> {
  const config = readConfig({
    ...database,
    ...SERVER_SETTINGS,
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_RUN_DIR: join(folder, 'run'),
    CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
    ...env,
  });
  return startServer(config, pino({ level: 'silent' }), driver);
}

const call = (method: string, path: string, body?: unknown, idempotencyKey?: string) =>
  callApi(server.url + path, method, { key: BOOTSTRAP_KEY, body, idempotencyKey });

function callOperator(path: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socketPath = join(folder, 'run', 'server', 'operator.sock');
    const sent = request({ socketPath, method: 'POST', path, agent: false }, async (response) => {
      resolve(JSON.parse((await response.setEncoding('utf8').toArray()).join('')));
    });
    sent.once('error', reject).end();
  });
}

async function readySandbox(key?: string): Promise<string> {
  const { body } = await call('POST', '/v1/sandboxes', {}, key);
  const got = await call('GET', `/v1/sandboxes/${body.sandbox.id}?waitFor=ready&waitMs=10000`);
  assert.equal(got.body.sandbox.status, 'ready');
  return body.sandbox.id;
}

/** Makes the records in progress those of a server that has ended. The server of a SQLite file sees so at its next start. */
async function loseRecords(): Promise<void> {
  if (database.CLOCHE_DATABASE_URL === undefined) return;
  await query(database.CLOCHE_DATABASE_URL, "update idempotency_records set owner = 'srv_ended:' || id");
}

async function query(url: string, text: string) {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(text);
  await client.end();
  return rows;
}

/** Counts the connections to the database: of all servers of PostgreSQL, or the files that this process has open. */
async function connections(): Promise<number> {
  const url = database.CLOCHE_DATABASE_URL;
  if (url === undefined) {
    const file = statSync(dataPaths(join(folder, 'data')).sqliteFile);
    const open = readdirSync('/proc/self/fd').map((fd) => statSync(`/proc/self/fd/${fd}`, { throwIfNoEntry: false }));
    return open.filter((stat) => stat?.ino === file.ino && stat.dev === file.dev).length;
  }
  const [found] = await query(
    url,
    `select count(*)::integer as others from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name = 'cloche'`,
  );
  return found.others;
}

describe('a server', () => {
  it('a server serves the contract from its first moment', async () => {
    assert.equal((await call('GET', '/readyz')).status, 200);
    const id = await readySandbox();
    assert.equal((await call('DELETE', `/v1/sandboxes/${id}`)).body.sandbox.destroyedReason, 'user_killed');
  });

  it('a server knows its keys, sandboxes and idempotency records after a restart', async () => {
    const id = await readySandbox('once');
    await server.stop();
    server = await start();
    assert.equal((await call('GET', `/v1/sandboxes/${id}`)).body.sandbox.status, 'ready');
    assert.equal((await call('POST', '/v1/sandboxes', {}, 'once')).body.sandbox.id, id);
    assert.equal((await call('GET', '/v1/sandboxes')).body.data.length, 1);
  });

  it('a server fails at its restart what a crash cut off, and the same request then runs in the same sandbox', async () => {
    const id = await readySandbox();
    const runs = `/v1/sandboxes/${id}/code/runs`;
    const body = { code: 'hang', language: 'python' };
    const crashed = server;
    const cutOff = call('POST', runs, body, 'crash');
    const running = async () => (await call('GET', `/v1/sandboxes/${id}`)).body.sandbox.status === 'running';
    await eventually(running, { because: 'the run has begun' });
    assert.equal((await call('POST', runs, body, 'crash')).body.error.code, 'idempotency_request_in_progress');

    // A server in this process cannot be killed, so the first one continues. Its effects from here on must not count.
    await loseRecords();
    server = await start();
    try {
      const other = await call('POST', runs, { ...body, code: 'print other' }, 'crash');
      assert.equal(other.body.error.code, 'idempotency_key_reused');
      const repeated = call('POST', runs, body, 'crash');
      // The agent ends the run of the first claim before it starts that of the second.
      assert.equal((await cutOff).body.error.code, 'unavailable');
      const agent = driver.agentOf(id);
      const [contextId = ''] = agent.contexts.keys();
      await eventually(() => agent.contexts.get(contextId)?.runs.size === 1, {
        because: 'the second run is in the agent',
      });
      await agent.client().interrupt(contextId, AbortSignal.timeout(60_000));
      const again = await repeated;
      assert.deepEqual([again.status, again.body.run.sandboxId], [200, id], JSON.stringify(again.body));
      assert.deepEqual((await call('POST', runs, body, 'crash')).body, again.body);
    } finally {
      await crashed.stop();
    }
  });

  it('a server answers a protocol without WebSockets as if no upgrade were asked for', async () => {
    await server.stop();
    server = await start({ CLOCHE_MCP: 'on' });
    const headers = { connection: 'upgrade', upgrade: 'websocket' };
    const [response] = await once(request(`${server.url}/mcp`, { headers }).end(), 'response');
    response.resume();
    assert.equal(response.statusCode, 401);
  });

  it('a server keeps to the quota of its operator', async () => {
    await server.stop();
    server = await start({ CLOCHE_MAX_SANDBOXES: '1' });
    await readySandbox();
    const { status, body } = await call('POST', '/v1/sandboxes', {});
    assert.deepEqual([status, body.error.code], [429, 'quota_exceeded']);
  });

  it('a server counts live sandboxes by status', async () => {
    await readySandbox();
    const text = await (await fetch(`${server.url}/metrics`)).text();
    assert.match(text, /cloche_sandboxes\{status="ready"\} 1/);
    assert.match(text, /cloche_sandboxes\{status="creating"\} 0/);
    assert.match(text, /process_cpu_seconds_total/);
  });

  it('obeys its operator', async () => {
    const id = await readySandbox();
    assert.deepEqual(await callOperator('/destroy-all'), { destroyed: 1 });
    const { sandbox } = (await call('GET', `/v1/sandboxes/${id}`)).body;
    assert.deepEqual([sandbox.status, sandbox.destroyedReason], ['destroyed', 'platform_cleanup']);
    assert.deepEqual(await callOperator('/reconcile'), { instancesRemoved: 0, sandboxesEnded: 0 });
  });

  it('a server leaves no connection to its database when it cannot start', async () => {
    await server.stop();
    const { secretsKeyFile } = dataPaths(join(folder, 'data'));
    chmodSync(secretsKeyFile, 0o644);
    await assert.rejects(start(), /others can read/);
    await eventually(async () => (await connections()) === 0, { because: 'the failed start closes what it opened' });
    chmodSync(secretsKeyFile, 0o600);
    server = await start();
  });

  it('a server leaves sandboxes alone when it stops', async () => {
    await readySandbox();
    await server.stop();
    assert.equal(driver.instances().length, 1);
    server = await start();
  });
});
