/** Requests of E2B's clients inside a paused sandbox, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import type { Sandbox } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { BOX, type Call, type E2bBox, E2bBoxes, INTERPRETER } from '../../../service/server/testing/e2b-boxes.ts';
import { PortApp } from '../../../service/server/testing/port-app.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../../service/server/testing/web-socket-upgrade.ts';

const PORT = 8000;
const WAKING = { autoResume: { enabled: true } };

let tenants: Tenants;
let boxes: E2bBoxes;
let app: PortApp;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  boxes = new E2bBoxes(tenants.server.url);
  app = await PortApp.open();
});
after(async () => {
  await tenants?.close();
  app?.close();
});

interface Subject extends E2bBox {
  readonly contextId: string;
  readonly pid: number;
}

const sandboxOf = async ({ sandboxId }: E2bBox): Promise<Sandbox> =>
  (await tenants.call(tenants.keys.whole, 'GET', `/v1/sandboxes/${sandboxId}`)).body.sandbox;
const isPaused = async (box: E2bBox) => (await sandboxOf(box)).paused !== undefined;

async function pause({ sandboxId }: E2bBox): Promise<void> {
  const path = `/v1/sandboxes/${sandboxId}/pause`;
  assert.equal((await tenants.call(tenants.keys.whole, 'POST', path, { body: { force: true } })).status, 200);
}

/** Creates a sandbox with a context, a process and a program at a port, and pauses it. */
async function paused(body: object = {}): Promise<Subject> {
  const box = await boxes.create(tenants.keys.whole, body);
  tenants.driver.agentOf(box.sandboxId).ports.map(PORT, app.port);
  const path = `/v1/sandboxes/${box.sandboxId}`;
  const context = { body: { language: 'python' }, idempotencyKey: `${box.sandboxId}-context` };
  const command = { body: { command: ['bash', 'hang'], background: true }, idempotencyKey: `${box.sandboxId}-command` };
  const { id } = (await tenants.call(tenants.keys.whole, 'POST', `${path}/code/contexts`, context)).body.context;
  await tenants.call(tenants.keys.whole, 'POST', `${path}/commands`, command);
  const listed = await boxes.call(box, LIST);
  const [{ pid }] = ((await listed.json()) as { processes: [{ pid: number }] }).processes;
  await pause(box);
  return { ...box, contextId: id, pid };
}

/** Sends a request to a port of a sandbox. */
async function visit({ sandboxId }: E2bBox, fields: Record<string, string> = {}) {
  const url = new URL(tenants.server.url);
  const host = `${PORT}-${sandboxId}.localhost:${url.port}`;
  const sent = request({ hostname: url.hostname, port: url.port, agent: false, headers: { ...fields, host } });
  sent.on('upgrade', (answer, socket) => {
    sent.emit('response', answer);
    socket.destroy();
  });
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, body: answer.statusCode === 101 ? '' : await text(answer) };
}

const LIST: Call = { port: BOX, path: '/process.Process/List' };
const rpc = (path: string, body: object, inFrame = false): Call => ({ port: BOX, path, body, inFrame });

/** Requests to a sandbox. */
const REQUESTS: Readonly<Record<string, (subject: Subject) => Call>> = {
  'a list of processes': () => LIST,
  'a signal': ({ pid }) => rpc('/process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }),
  'a command': () => rpc('/process.Process/Start', { process: { cmd: 'bash', args: ['print 1'] } }, true),
  'a connection to a process': ({ pid }) => rpc('/process.Process/Connect', { process: { pid } }, true),
  'the information of a file': () => rpc('/filesystem.Filesystem/Stat', { path: '/workspace' }),
  'a directory': () => rpc('/filesystem.Filesystem/MakeDir', { path: '/workspace/made' }),
  'events of a watch': () => rpc('/filesystem.Filesystem/GetWatcherEvents', { watcherId: 'x' }),
  'the content of a file': () => ({ port: BOX, method: 'GET', path: '/files?path=/workspace/a' }),
  'a list of contexts': () => ({ port: INTERPRETER, method: 'GET', path: '/contexts' }),
  'a new context': () => ({ port: INTERPRETER, path: '/contexts', body: {} }),
  'the end of a context': ({ contextId }) => ({ port: INTERPRETER, method: 'DELETE', path: `/contexts/${contextId}` }),
  'the restart of a context': ({ contextId }) => ({ port: INTERPRETER, path: `/contexts/${contextId}/restart` }),
  'a code run': () => ({ port: INTERPRETER, path: '/execute', body: { code: 'print 1' } }),
};

describe('inside a paused sandbox of E2B that nothing wakes', () => {
  let subject: Subject;
  before(async () => {
    subject = await paused();
  });

  for (const [name, callOf] of Object.entries(REQUESTS)) {
    it(`inside a paused sandbox of E2B that nothing wakes ${name} is refused as in one that does not run`, async () => {
      const call = callOf(subject);
      const answer = await boxes.call(subject, call);
      const body = await answer.text();
      assert.ok(answer.status === 502 || /"code":"unavailable"/.test(body), `${answer.status} ${body}`);
      assert.ok(!body.includes('"start"'), body);
      assert.match(body, /paused/);
      assert.ok(await isPaused(subject));
    });
  }

  it('inside a paused sandbox of E2B that nothing wakes all is as it was after it is resumed', async () => {
    const { status } = await tenants.call(tenants.keys.whole, 'POST', `/v1/sandboxes/${subject.sandboxId}/resume`);
    assert.equal(status, 200);
    const { processes } = (await (await boxes.call(subject, LIST)).json()) as { processes: { pid: number }[] };
    assert.deepEqual(
      processes.map(({ pid }) => pid),
      [subject.pid],
    );
    const contexts = await (await boxes.call(subject, { port: INTERPRETER, method: 'GET', path: '/contexts' })).text();
    assert.ok(contexts.includes(subject.contextId));
  });
});

describe('inside a paused sandbox of E2B that traffic wakes', () => {
  /** Answered from records, so that nothing has to wake. */
  const FROM_RECORDS = [
    'a list of processes',
    'a signal',
    'events of a watch',
    'a list of contexts',
    'the end of a context',
  ];
  for (const [name, callOf] of Object.entries(REQUESTS)) {
    if (FROM_RECORDS.includes(name)) continue;
    it(`inside a paused sandbox of E2B that traffic wakes ${name} wakes it`, async () => {
      const subject = await paused({ ...WAKING, timeout: 600 });
      const answer = await boxes.call(subject, callOf(subject));
      assert.notEqual(answer.status, 502);
      // A stream begins before the sandbox is awake.
      await eventually(async () => !(await isPaused(subject)));
      await answer.body?.cancel();
      const { paused: pausedNow, resumed, expiresAt, sessionStartedAt } = await sandboxOf(subject);
      assert.deepEqual([pausedNow, resumed?.by], [undefined, 'operation']);
      assert.equal(Date.parse(expiresAt) - Date.parse(sessionStartedAt), 600_000);
    });
  }

  for (const name of FROM_RECORDS) {
    it(`inside a paused sandbox of E2B that traffic wakes ${name} is answered`, async () => {
      const subject = await paused(WAKING);
      const answer = await boxes.call(subject, REQUESTS[name]?.(subject) as Call);
      assert.ok(answer.ok || answer.status === 404, `${answer.status} ${await answer.text()}`);
    });
  }
});

it('a paused sandbox of /v1 whose policy is requests wakes for a command of E2B, and not for a visitor of a port', async () => {
  const { body } = await tenants.call(tenants.keys.whole, 'POST', '/v1/sandboxes', { idempotencyKey: 'of-v1' });
  const box = await boxes.connect(tenants.keys.whole, body.sandbox.id);
  assert.equal((await sandboxOf(box)).pause.wake, 'requests');
  await pause(box);
  assert.equal((await visit(box, { 'e2b-traffic-access-token': box.token })).status, 502);
  assert.ok(await isPaused(box));
  assert.equal((await boxes.call(box, LIST)).status, 200);
  const stat = REQUESTS['the information of a file'] as () => Call;
  assert.equal((await boxes.call(box, stat())).status, 200);
  assert.equal(await isPaused(box), false);
});

describe('the health of a paused sandbox of E2B', () => {
  for (const body of [{}, WAKING]) {
    it(`the health of a paused sandbox of E2B is 502 and wakes nothing, if it was created with ${JSON.stringify(body)}`, async () => {
      const subject = await paused(body);
      const health: Call = { port: BOX, method: 'GET', path: '/health' };
      const asleep = await boxes.call(subject, health);
      assert.deepEqual([asleep.status, await isPaused(subject)], [502, true]);
      assert.match(await asleep.text(), /sandbox was not found/);
      await boxes.connect(tenants.keys.whole, subject.sandboxId);
      assert.equal((await boxes.call(subject, health)).status, 204);
    });
  }
});

describe('a port of a paused sandbox of E2B', () => {
  const TOKEN = { network: { allowPublicTraffic: false } };
  for (const body of [{}, TOKEN]) {
    const fieldsOf = ({ token }: E2bBox) => (body === TOKEN ? { 'e2b-traffic-access-token': token } : {});
    it(`a port of a paused sandbox of E2B that nothing wakes is 502 with ${JSON.stringify(body)}`, async () => {
      const subject = await paused(body);
      for (const more of [{}, WEB_SOCKET_UPGRADE]) {
        const { status, body: answer } = await visit(subject, { ...fieldsOf(subject), ...more });
        assert.deepEqual([status, /paused/.test(answer)], [502, true]);
      }
      assert.ok(await isPaused(subject));
    });

    it(`a port of a paused sandbox of E2B that traffic wakes is served after the wake with ${JSON.stringify(body)}`, async () => {
      for (const [more, status] of [[{}, 200] as const, [WEB_SOCKET_UPGRADE, 101] as const]) {
        const subject = await paused({ ...body, ...WAKING });
        assert.equal((await visit(subject, { ...fieldsOf(subject), ...more })).status, status);
        assert.equal((await sandboxOf(subject)).resumed?.by, 'traffic');
      }
    });
  }

  it('a port of a paused sandbox of E2B needs the token before anything is said of the sandbox', async () => {
    const subject = await paused({ ...TOKEN, ...WAKING });
    assert.equal((await visit(subject)).status, 401);
    assert.ok(await isPaused(subject));
  });
});
