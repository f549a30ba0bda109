/** Sends a request of every operation of a sandbox while that is paused. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { type Operation, operations, type Sandbox, WHILE_PAUSED } from '@cloche/contract';
import { type Ids, type NamingCase, TENANCY_CASES } from '../../testing/tenancy-cases.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../testing/web-socket-upgrade.ts';

const table = (Object.keys(WHILE_PAUSED) as (keyof typeof WHILE_PAUSED)[]).map((id) => {
  const named = TENANCY_CASES[id].find((each): each is NamingCase => each.kind === 'names');
  assert.ok(named, id);
  return { operation: operations[id] as Operation, named, effect: WHILE_PAUSED[id] };
});

let tenants: Tenants;
let ids: Ids;
before(async () => {
  tenants = await openTenants();
  ids = await createResources();
});
after(() => tenants.close());

const ask = async (method: string, path: string, body?: unknown) =>
  (await tenants.call(tenants.keys.whole, method, path, { body, idempotencyKey: randomUUID() })).body;

async function createResources(): Promise<Ids> {
  const sandboxId = await tenants.createSandbox(tenants.keys.whole);
  const sandbox = `/v1/sandboxes/${sandboxId}`;
  for (const path of ['kept', 'moved', 'deleted']) {
    await tenants.call(tenants.keys.whole, 'PUT', `${sandbox}/files/content?path=${path}`, { body: Buffer.from('x') });
  }
  const running = { command: ['bash', 'hang'], background: true, stdinOpen: true, terminal: { cols: 80, rows: 24 } };
  const { context } = await ask('POST', `${sandbox}/code/contexts`, { language: 'python' });
  const { command } = await ask('POST', `${sandbox}/commands`, running);
  // The others are not named in paths of sandboxes.
  return { sandboxId, contextId: context.id, commandId: command.id } as unknown as Ids;
}

const sandboxNow = async (): Promise<Sandbox> => (await ask('GET', `/v1/sandboxes/${ids.sandboxId}`)).sandbox;

interface Reply {
  readonly status: number;
  /** Undefined unless it is JSON. */
  readonly text: string | undefined;
}

/** Sends the request of an operation, and reads its answer if that is JSON. */
function send({ operation, named }: (typeof table)[number]): Promise<Reply> {
  const { body, query = {}, bytes } = named.parts(ids);
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name as keyof Ids]);
  const url = new URL(`${path}?${new URLSearchParams(query)}`, tenants.server.url);
  const content = bytes ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = {
    authorization: `Bearer ${tenants.keys.whole}`,
    ...(operation.idempotency === 'none' ? {} : { 'idempotency-key': randomUUID() }),
    ...(content === undefined
      ? {}
      : { 'content-type': bytes === undefined ? 'application/json' : 'application/x-tar' }),
    ...(operation.webSocket === undefined ? {} : WEB_SOCKET_UPGRADE),
  };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method: operation.method, headers, agent: false });
    sent.once('error', reject);
    sent.once('response', async (response) => {
      const isJson = response.headers['content-type']?.startsWith('application/json');
      const text = isJson ? (await response.setEncoding('utf8').toArray()).join('') : undefined;
      response.destroy();
      resolve({ status: response.statusCode ?? 0, text });
    });
    sent.end(content);
  });
}

const moves = table.filter(({ effect }) => effect === 'moves').map(({ operation }) => operation.id);

it('an operation of a sandbox has a row in the table of what it does while the sandbox is paused', () => {
  const ofSandboxes = Object.values(operations).filter(({ path }) => path.startsWith('/v1/sandboxes/{sandboxId}'));
  assert.deepEqual(Object.keys(WHILE_PAUSED).sort(), ofSandboxes.map(({ id }) => id).sort());
  assert.deepEqual(moves, ['pauseSandbox', 'resumeSandbox', 'killSandbox'], 'pauses.test.ts tries these');
});

const SAID = {
  answered: 'answers without a wake',
  wakes: 'wakes the sandbox',
  put_off: 'is done on the record',
  refused: 'is refused',
  moves: '',
};

describe('while its sandbox is paused,', () => {
  const tried = table.filter(({ effect }) => effect !== 'moves');
  for (const each of tried.toSorted((one, other) => one.named.destroys - other.named.destroys)) {
    const { operation, effect } = each;
    it(`${operation.id} ${SAID[effect]}`, async () => {
      const paused = await ask('POST', `/v1/sandboxes/${ids.sandboxId}/pause`, { force: true });
      assert.ok(paused.sandbox?.paused, JSON.stringify(paused));
      const reply = await send(each);
      const now = await sandboxNow();
      if (effect === 'wakes') assert.deepEqual([now.paused, now.resumed?.by], [undefined, 'operation']);
      else assert.deepEqual(now.paused, paused.sandbox.paused);
      if (effect === 'refused') assert.equal(JSON.parse(reply.text ?? '').error.code, 'sandbox_paused');
      // The fake runtime has no terminals.
      else if (operation.webSocket !== undefined) assert.match(reply.text ?? '', /no terminal/);
      else assert.equal(reply.status, operation.response.status, reply.text ?? '');
    });
  }
});
