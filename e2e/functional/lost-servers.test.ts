/** Tests the work of one of several servers that is killed, or that stands still for longer than its lease. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { dataPaths, runPaths } from '@cloche/layout';
import { HttpClient } from '../../bench/src/http-client.ts';
import { eventually } from '../support/eventually.ts';
import { type TestPostgres, testPostgres } from '../support/postgres.ts';
import { type OwnService, TAKEN_OVER_MS, testService } from '../support/service.ts';

/** Longer than all that the tests wait for. */
const LONG_MS = 300_000;
/** Marks its beginning and its end in a file, however it ends, and waits for another file. */
const MARKED = `
import os, time
def mark(letter):
    with open('marks', 'a') as file: file.write(letter)
mark('b')
try:
    while not os.path.exists('go'): time.sleep(0.02)
finally:
    mark('e')
print('done')`;

let postgres: TestPostgres;
let service: OwnService;
before(async () => {
  postgres = await testPostgres();
  // No pool: a launch takes long enough to be under way when its server is killed.
  const env = { CLOCHE_DATABASE_URL: await postgres.createDatabase('lost'), CLOCHE_POOL_SIZE: '0' };
  service = await testService(env, undefined, { servers: 3 });
});
after(async () => {
  await service?.close();
  await postgres?.close();
});

/** Sends a request to one of the servers, past the load balancer. */
async function ask(server: number, method: string, path: string, body?: unknown, key: string = randomUUID()) {
  const { apiSocket } = runPaths(service.runDir, String(server));
  const client = new HttpClient({ socketPath: apiSocket }, { authorization: `Bearer ${service.apiKey}` });
  try {
    const response = await client.open(method, path, body, body === undefined ? {} : { 'idempotency-key': key });
    const content = await text(response);
    const isJson = response.headers['content-type']?.includes('json') ?? false;
    return { status: response.statusCode, body: isJson ? JSON.parse(content) : content };
  } finally {
    client.close();
  }
}

const runsOf = (sandboxId: string) => `/v1/sandboxes/${sandboxId}/code/runs`;
const execute = (server: number, sandboxId: string, code: string, key?: string) =>
  ask(server, 'POST', runsOf(sandboxId), { code, language: 'python', timeoutMs: LONG_MS }, key);
/** The requests of the tests themselves go to a server that lives to the end. */
const OTHER = 3;
const marksOf = async (sandboxId: string) =>
  (await ask(OTHER, 'GET', `/v1/sandboxes/${sandboxId}/files/content?path=marks`)).body;
const touch = (sandboxId: string, path: string) =>
  ask(OTHER, 'POST', `/v1/sandboxes/${sandboxId}/commands`, { command: ['touch', path] });
const sandboxOf = async (id: string) => (await ask(OTHER, 'GET', `/v1/sandboxes/${id}`)).body.sandbox;

const isInProgress = (answer: Awaited<ReturnType<typeof ask>>) =>
  answer.body.error?.code === 'idempotency_request_in_progress';

/** Sends a run again until no other server counts as executing it. */
async function repeat(sandboxId: string, key: string) {
  let answer: Awaited<ReturnType<typeof ask>> | undefined;
  const isDecided = async () => {
    answer = await execute(OTHER, sandboxId, MARKED, key);
    return !isInProgress(answer);
  };
  await eventually(isDecided, TAKEN_OVER_MS);
  return answer ?? assert.fail();
}

describe('the work of a server that is killed with -9', () => {
  const key = randomUUID();
  let sandboxId: string;
  let watched: { sandboxId: string; commandId: string };
  let created: string[];

  before(async () => {
    sandboxId = (await service.api.readySandbox()).id;
    const idle = await service.api.readySandbox({ idleTimeoutMs: 5_000 });
    const command = { command: 'until [ -e go ]; do sleep 0.1; done; exit 7', background: true };
    const started = await ask(1, 'POST', `/v1/sandboxes/${idle.id}/commands`, command);
    watched = { sandboxId: idle.id, commandId: started.body.command.id };
    execute(1, sandboxId, MARKED, key).catch(() => undefined);
    await eventually(async () => (await marksOf(sandboxId)) === 'b');
    const creations = await Promise.all(Array.from({ length: 3 }, () => ask(1, 'POST', '/v1/sandboxes', {})));
    created = creations.map(({ body }) => body.sandbox.id);
    await service.kill('server-1');
  });

  it('ends in the sandbox, and is executed once more for the same key when the lease has ended', async (t) => {
    const killedAt = performance.now();
    assert.ok(isInProgress(await execute(OTHER, sandboxId, MARKED, key)));
    const next = await execute(2, sandboxId, '1');
    assert.equal(next.status, 200);
    t.diagnostic(`the next run of the context had ended after ${Math.round(performance.now() - killedAt)} ms`);
    assert.equal(await marksOf(sandboxId), 'be');
    await touch(sandboxId, 'go');
    const { status, body } = await repeat(sandboxId, key);
    assert.deepEqual([status, body.run?.stdout], [200, 'done\n']);
    assert.equal(await marksOf(sandboxId), 'bebe');
    assert.deepEqual((await execute(2, sandboxId, MARKED, key)).body, body);
    assert.equal(await marksOf(sandboxId), 'bebe');
  });

  it('is gone on with if it is the creation of a sandbox, which gets one instance', async () => {
    // Without a pool, the names of instances begin with those of their sandboxes.
    const instancesOf = (id: string) => globSync(`instances/${id}-*`, { cwd: dataPaths(service.dataDir).hostdDir });
    for (const id of created) {
      await eventually(async () => ['ready', 'idle'].includes((await sandboxOf(id)).status), TAKEN_OVER_MS);
      assert.equal((await execute(3, id, 'print(6 * 7)')).body.run.stdout, '42\n');
      // An instance that the dead server had launched is removed as one that no record names.
      await eventually(() => instancesOf(id).length === 1, TAKEN_OVER_MS);
    }
  });

  it('goes on if it is a command, whose sandbox does not become idle before the end, which is recorded', async () => {
    await eventually(async () => (await sandboxOf(watched.sandboxId)).status === 'running', TAKEN_OVER_MS);
    await touch(watched.sandboxId, 'go');
    // Nobody asks for the command until its sandbox has ended, so its record is that of the server that waited.
    await eventually(async () => (await sandboxOf(watched.sandboxId)).status === 'destroyed', TAKEN_OVER_MS);
    assert.equal((await sandboxOf(watched.sandboxId)).destroyedReason, 'idle_expired');
    const path = `/v1/sandboxes/${watched.sandboxId}/commands/${watched.commandId}`;
    const { command } = (await ask(3, 'GET', path)).body;
    assert.deepEqual([command.status, command.exitCode], ['exited', 7]);
  });
});

describe('a server that stands still for longer than its lease', () => {
  after(() => service.signal('server-2', 'SIGCONT'));

  it('loses its run and then its request, and changes nothing when it goes on', async (t) => {
    const { id } = await service.api.readySandbox();
    const key = randomUUID();
    const first = execute(2, id, MARKED, key);
    await eventually(async () => (await marksOf(id)) === 'b');
    service.signal('server-2', 'SIGSTOP');
    const stoppedAt = performance.now();
    assert.ok(isInProgress(await execute(OTHER, id, MARKED, key)));
    const repeated = repeat(id, key);
    // Only the agent can have ended the run: the connection is open, and this is another request.
    assert.equal((await execute(OTHER, id, '1')).status, 200);
    t.diagnostic(`the run had ended after ${Math.round(performance.now() - stoppedAt)} ms`);
    await touch(id, 'go');
    const { status, body } = await repeated;
    assert.deepEqual([status, body.run?.stdout], [200, 'done\n']);
    assert.equal(await marksOf(id), 'bebe');
    service.signal('server-2', 'SIGCONT');
    assert.equal((await first).body.error?.code, 'unavailable');
    await eventually(async () => (await ask(2, 'GET', '/readyz')).status === 200, TAKEN_OVER_MS);
    for (const server of [2, OTHER]) assert.deepEqual((await execute(server, id, MARKED, key)).body, body);
    assert.equal(await marksOf(id), 'bebe');
  });
});
