/** Tests the work of one of several servers that is killed, or that stands still for longer than its lease. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { dataPaths, runPaths } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { HttpClient } from '../../bench/src/http-client.ts';
import { AgentRelay } from '../support/agent-relay.ts';
import { HeldLease } from '../support/held-lease.ts';
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
let db: Awaited<ReturnType<TestPostgres['connect']>>;
let service: OwnService;
before(async () => {
  postgres = await testPostgres();
  const env = { CLOCHE_DATABASE_URL: await postgres.createDatabase('lost'), CLOCHE_POOL_SIZE: '0' };
  service = await testService(env, undefined, { servers: 4 });
  db = await postgres.connect('lost');
});
after(async () => {
  await service?.close();
  await db?.end();
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
const OTHER = 4;
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
  await eventually(isDecided, { within: TAKEN_OVER_MS });
  return answer ?? assert.fail();
}

/** Sends a run that waits for a file, and resolves when it has begun. `answer` comes later. */
async function beginRun(server: number, sandboxId: string, key: string) {
  const answer = execute(server, sandboxId, MARKED, key);
  answer.catch(() => undefined);
  await eventually(async () => (await marksOf(sandboxId)) === 'b');
  return { answer };
}

/** Repeats the run of a lost server until another one executes it. Returns what lets this run end, and gives its answer. */
async function executeAgain(sandboxId: string, key: string) {
  const answer = repeat(sandboxId, key);
  answer.catch(() => undefined);
  await eventually(async () => (await marksOf(sandboxId)) === 'beb', { within: TAKEN_OVER_MS });
  return async () => {
    await touch(sandboxId, 'go');
    const { status, body } = await answer;
    assert.deepEqual([status, body.run?.stdout], [200, 'done\n']);
    assert.equal(await marksOf(sandboxId), 'bebe');
    return body;
  };
}

/** A run and a command that a server has begun, and sandboxes that it is creating. */
class Work {
  readonly key = randomUUID();
  readonly #server: number;
  sandboxId = '';
  watched = { sandboxId: '', commandId: '' };
  created: string[] = [];

  constructor(server: number) {
    this.#server = server;
  }

  async begin(): Promise<void> {
    this.sandboxId = (await service.api.readySandbox()).id;
    const idle = await service.api.readySandbox({ idleTimeoutMs: 10_000 });
    const command = { command: 'until [ -e go ]; do sleep 0.1; done; exit 7', background: true };
    const started = await ask(this.#server, 'POST', `/v1/sandboxes/${idle.id}/commands`, command);
    this.watched = { sandboxId: idle.id, commandId: started.body.command.id };
    await beginRun(this.#server, this.sandboxId, this.key);
  }

  async create(): Promise<void> {
    const creations = Array.from({ length: 2 }, () => ask(this.#server, 'POST', '/v1/sandboxes', {}));
    this.created = (await Promise.all(creations)).map(({ body }) => body.sandbox.id);
  }

  statuses(): Promise<string[]> {
    return Promise.all(this.created.map(async (id) => (await sandboxOf(id)).status));
  }

  /** Returns the id of the server that waits for the end of the command. */
  async watcher(): Promise<string> {
    const { rows } = await db.query('select watched_by from commands where id = $1', [this.watched.commandId]);
    return rows[0].watched_by;
  }

  async creationsEndReady(): Promise<void> {
    // Without a pool, the names of instances begin with those of their sandboxes.
    const instancesOf = (id: string) => globSync(`instances/${id}-*`, { cwd: dataPaths(service.dataDir).hostdDir });
    for (const id of this.created) {
      await eventually(async () => ['ready', 'idle'].includes((await sandboxOf(id)).status), { within: TAKEN_OVER_MS });
      assert.equal((await execute(3, id, 'print(6 * 7)')).body.run.stdout, '42\n');
      // An instance that the dead server had launched is removed as one that no record names.
      await eventually(() => instancesOf(id).length === 1, { within: TAKEN_OVER_MS });
    }
  }

  async commandIsRecorded(): Promise<void> {
    await eventually(async () => (await sandboxOf(this.watched.sandboxId)).status === 'running', {
      within: TAKEN_OVER_MS,
    });
    await touch(this.watched.sandboxId, 'go');
    // Nobody asks for the command until its sandbox has ended, so its record is that of the server that waited.
    await eventually(async () => (await sandboxOf(this.watched.sandboxId)).status === 'destroyed', {
      within: TAKEN_OVER_MS,
    });
    assert.equal((await sandboxOf(this.watched.sandboxId)).destroyedReason, 'idle_expired');
    const path = `/v1/sandboxes/${this.watched.sandboxId}/commands/${this.watched.commandId}`;
    const { command } = (await ask(3, 'GET', path)).body;
    assert.deepEqual([command.status, command.exitCode], ['exited', 7]);
  }
}

describe('the work of a server that is killed with -9', () => {
  const lost = new Work(1);
  /** That of a server whose lease does not end. */
  const held = new Work(2);
  let lease: HeldLease;
  /** A sandbox with a run whose connection is not closed. */
  let connectedId: string;
  let relay: AgentRelay;

  before(async () => {
    await Promise.all([lost.begin(), held.begin()]);
    lease = await HeldLease.hold(db, await held.watcher());
    connectedId = (await service.api.readySandbox()).id;
    relay = await AgentRelay.open(service, connectedId);
    await beginRun(1, connectedId, randomUUID());
    // Keeps the launches from their end until the servers are dead.
    service.signal('hostd', 'SIGSTOP');
    try {
      await Promise.all([lost.create(), held.create()]);
      await Promise.all([service.kill('server-1'), service.kill('server-2')]);
    } finally {
      service.signal('hostd', 'SIGCONT');
    }
  });
  after(() => relay?.close());

  it('ends in the sandbox, and is executed once more for the same key when the lease has ended', async (t) => {
    const { sandboxId, key } = lost;
    const killedAt = performance.now();
    assert.ok(isInProgress(await execute(OTHER, sandboxId, MARKED, key)));
    const next = await execute(3, sandboxId, '1');
    assert.equal(next.status, 200);
    t.diagnostic(`the next run of the context had ended after ${Math.round(performance.now() - killedAt)} ms`);
    assert.equal(await marksOf(sandboxId), 'be');
    const finish = await executeAgain(sandboxId, key);
    const body = await finish();
    assert.deepEqual((await execute(3, sandboxId, MARKED, key)).body, body);
    assert.equal(await marksOf(sandboxId), 'bebe');
  });

  it('a creation whose server is killed with -9 continues, and gets one instance', () => lost.creationsEndReady());

  it('a command whose server is killed with -9 continues, and its sandbox does not become idle before the end, which is recorded', () =>
    lost.commandIsRecorded());

  it('the work of a server that is killed with -9 does not end in the sandbox if its connection stays open: the control', async () => {
    assert.equal(await marksOf(connectedId), 'b');
    await relay.close();
    await eventually(async () => (await marksOf(connectedId)) === 'be');
  });

  it('the work of a server that is killed with -9 is not taken over while the lease of its server is valid: the control', async () => {
    await eventually(() => lease.isOverdue());
    assert.deepEqual(await held.statuses(), ['creating', 'creating']);
    assert.equal(await held.watcher(), lease.server);
    assert.ok(isInProgress(await execute(OTHER, held.sandboxId, MARKED, held.key)));
    await lease.end();
    const finish = await executeAgain(held.sandboxId, held.key);
    await finish();
    await held.creationsEndReady();
    await held.commandIsRecorded();
  });
});

describe('a server that stands still for longer than its lease', () => {
  /** A sandbox with a run whose server the agent hears all the time. */
  let heardId: string;
  let relay: AgentRelay;

  before(async () => {
    heardId = (await service.api.readySandbox()).id;
    relay = await AgentRelay.open(service, heardId);
  });
  after(async () => {
    service.signal('server-3', 'SIGCONT');
    await relay?.close();
  });

  it('a server that stands still for longer than its lease loses its run and then its request, and changes nothing when it goes on', async (t) => {
    const { id } = await service.api.readySandbox();
    const [key, heardKey] = [randomUUID(), randomUUID()];
    const first = await beginRun(3, id, key);
    const heard = await beginRun(3, heardId, heardKey);
    service.signal('server-3', 'SIGSTOP');
    const stoppedAt = performance.now();
    assert.ok(isInProgress(await execute(OTHER, id, MARKED, key)));
    // Only the agent can have ended the run: the connection is open, and this is another request.
    assert.equal((await execute(OTHER, id, '1')).status, 200);
    t.diagnostic(`the run had ended after ${Math.round(performance.now() - stoppedAt)} ms`);
    const finish = await executeAgain(id, key);
    const body = await finish();
    // The control: a run whose server seems to speak goes on until the agent gets a later claim.
    assert.equal(await marksOf(heardId), 'b');
    const finishHeard = await executeAgain(heardId, heardKey);
    service.signal('server-3', 'SIGCONT');
    for (const { answer } of [first, heard]) assert.equal((await answer).body.error?.code, 'unavailable');
    const heardBody = await finishHeard();
    await eventually(async () => (await ask(3, 'GET', '/readyz')).status === 200, { within: TAKEN_OVER_MS });
    for (const server of [3, OTHER]) {
      assert.deepEqual((await execute(server, id, MARKED, key)).body, body);
      assert.deepEqual((await execute(server, heardId, MARKED, heardKey)).body, heardBody);
    }
    for (const sandboxId of [id, heardId]) assert.equal(await marksOf(sandboxId), 'bebe');
  });
});
