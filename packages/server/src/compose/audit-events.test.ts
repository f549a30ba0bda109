/** Sends a request of every operation that has an audit event, and requires the event to be in its transaction. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it, mock } from 'node:test';
import { AUDIT_ACTIONS, type AuditEvent, type Operation, type OperationId, operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { AUDIT_CASES, type AuditCase, createResources, type ResourceIds } from '../../testing/audit-cases.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { AuditLog } from '../audit/audit-log.ts';

const audited = (Object.values(operations) as Operation[]).filter(
  ({ id }) => AUDIT_ACTIONS[id as OperationId] !== 'none',
);

let tenants: Tenants;
let database: DatabaseSync;
before(async () => {
  tenants = await openTenants();
  database = new DatabaseSync(join(tenants.folder, 'data/server/cloche.db'), { readOnly: true });
});
after(async () => {
  database.close();
  await tenants.close();
});

/** What the API shows, without times and counters that background jobs write. */
const TABLES: Record<string, readonly string[]> = {
  orgs: [],
  projects: [],
  api_keys: ['last_used_at'],
  sandboxes: ['last_active_at', 'used'],
  code_contexts: [],
  commands: [],
  artifacts: [],
  previews: [],
  webhooks: [
    'attempts',
    'claimed_by',
    'claimed_until',
    'cursor_seq',
    'delivery_seq',
    'failing_since',
    'next_attempt_at',
  ],
  events: [],
};

function contents(): unknown {
  return Object.entries(TABLES).map(([table, ignored]) => {
    const rows = database.prepare(`select * from ${table}`).all();
    return rows.map((row) => Object.entries(row).filter(([column]) => !ignored.includes(column)));
  });
}

interface Reply {
  readonly status: number;
  readonly requestId: string;
  // biome-ignore lint/suspicious/noExplicitAny: a body is read field by field
  readonly body: any;
}

interface Sending {
  readonly key: string;
  readonly content: string | undefined;
  readonly idempotencyKey: string;
}

function send(operation: Operation, ids: ResourceIds, { key, content, idempotencyKey }: Sending) {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name as keyof ResourceIds] ?? '');
  const headers = {
    authorization: `Bearer ${key}`,
    ...(operation.idempotency === 'none' ? {} : { 'idempotency-key': idempotencyKey }),
    ...(content === undefined ? {} : { 'content-type': 'application/json' }),
    ...(operation.webSocket === undefined ? {} : UPGRADE),
  };
  return new Promise<Reply>((resolve, reject) => {
    const sent = httpRequest(new URL(path, tenants.server.url), { method: operation.method, headers, agent: false });
    sent.once('error', reject);
    sent.once('response', async (response) => {
      const text = (await response.setEncoding('utf8').toArray()).join('');
      const requestId = String(response.headers['x-request-id']);
      resolve({ status: response.statusCode ?? 0, requestId, body: JSON.parse(text) });
    });
    sent.end(content);
  });
}

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

async function eventsOf(action: string): Promise<AuditEvent[]> {
  const all: AuditEvent[] = [];
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const path = `/v1/audit-events?action=${action}&limit=500&afterSeq=${afterSeq}`;
    const { body } = await tenants.call(tenants.keys.whole, 'GET', path);
    all.push(...body.data);
    ({ nextSeq: afterSeq, hasMore } = body);
  }
  return all;
}

/** Lets the transactions of the action roll back after their event was appended, and refuses events before a change. */
function breakAppend(action: string) {
  const { append } = AuditLog.prototype;
  return mock.method(AuditLog.prototype, 'append', async function (this: AuditLog, ...[event, tx]: Appended) {
    const breaks = event.action === action && event.outcome === 'allowed';
    if (tx || !breaks) await append.call(this, event, tx);
    if (breaks) throw new Error('the server was killed');
  });
}
type Appended = Parameters<AuditLog['append']>;

/** The fake runtime has no terminals, so opening one fails after its event. */
const isRefused = ({ webSocket }: Operation) => webSocket !== undefined;

async function tryCase(operation: Operation, each: AuditCase): Promise<void> {
  const entry = AUDIT_ACTIONS[operation.id as OperationId];
  assert.ok(entry !== 'none');
  const { action, target } = entry;
  // A key of its own, because the failures of a key in a minute have a limited number of events.
  const key = await tenants.createKey(undefined);
  const ids = await createResources(tenants, key, operation.path);
  const content = each.body && JSON.stringify(each.body(ids));
  const sendOnce = (idempotencyKey: string = randomUUID()) => send(operation, ids, { key, content, idempotencyKey });
  const earlier = await eventsOf(action);
  const events = async (outcome: AuditEvent['outcome']) =>
    (await eventsOf(action)).slice(earlier.length).filter((event) => event.outcome === outcome);

  const before = contents();
  const broken = breakAppend(action);
  const failed = await sendOnce();
  broken.mock.restore();
  assert.equal(failed.status, 500, JSON.stringify(failed.body));
  assert.deepEqual(contents(), before);
  const get = async (path: string) => (await tenants.call(key, 'GET', path)).body;
  assert.equal(await each.untouched?.(get, ids), each.untouched && true);
  await eventually(async () => (await events('failed')).length === 1, { because: 'the failure has an event' });
  const [failure] = await events('failed');
  assert.deepEqual([failure?.requestId, failure?.code], [failed.requestId, 'internal']);
  assert.deepEqual(await events('allowed'), []);

  const idempotencyKey = randomUUID();
  const done = await sendOnce(idempotencyKey);
  assert.equal(done.status, isRefused(operation) ? 404 : operation.response.status, JSON.stringify(done.body));
  const [event, ...others] = await events('allowed');
  assert.deepEqual(others, []);
  assert.equal(event?.requestId, done.requestId);
  const id = operation.path.includes(`{${target}Id}`) ? ids[`${target}Id` as keyof ResourceIds] : done.body[target]?.id;
  assert.equal(event.target.id, isRefused(operation) ? ids.sandboxId : id);
  const projectId = operation.id === 'createProject' ? id : target === 'apiKey' ? undefined : ids.projectId;
  assert.equal(event.projectId, projectId);

  if (operation.idempotency !== 'none') await sendOnce(idempotencyKey);
  assert.equal((await events('allowed')).length, 1, 'a replayed answer has no event');
  await sendOnce();
  assert.equal((await events('allowed')).length, each.again === 'changes' ? 2 : 1);
}

it('every operation with an audit event has a case', () => {
  assert.deepEqual(Object.keys(AUDIT_CASES).sort(), audited.map(({ id }) => id).sort());
});

describe('the audit event is in the transaction of its change, or before a change outside of the database:', () => {
  for (const operation of audited) {
    const each = AUDIT_CASES[operation.id as OperationId];
    if (each) it(operation.id, () => tryCase(operation, each));
  }
});
