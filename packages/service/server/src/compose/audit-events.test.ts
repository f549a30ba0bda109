/** Sends a request of every operation that has an audit event, and requires the event to be in its transaction. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { AUDIT_ACTIONS, type AuditEvent, type Operation, type OperationId, operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import {
  AUDIT_CASES,
  type AuditCase,
  type Call,
  createResources,
  type ResourceIds,
} from '../../testing/audit-cases.ts';
import { breakAppend, listAuditEvents, readContents } from '../../testing/audited.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../testing/web-socket-upgrade.ts';

const audited = (Object.values(operations) as Operation[]).filter(
  ({ id }) => AUDIT_ACTIONS[id as OperationId] !== 'none',
);

let tenants: Tenants;
before(async () => {
  tenants = await openTenants();
});
after(() => tenants.close());

interface Reply {
  readonly status: number;
  readonly requestId: string;
  // biome-ignore lint/suspicious/noExplicitAny: a body is read field by field
  readonly body: any;
}

interface Sending {
  readonly key: string;
  readonly content: string | Buffer | undefined;
  readonly idempotencyKey: string;
}

function send(operation: Operation, ids: ResourceIds, { key, content, idempotencyKey }: Sending) {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name as keyof ResourceIds] ?? '');
  const headers = {
    authorization: `Bearer ${key}`,
    ...(operation.idempotency === 'none' ? {} : { 'idempotency-key': idempotencyKey }),
    ...(content === undefined
      ? {}
      : { 'content-type': typeof content === 'string' ? 'application/json' : 'application/x-tar' }),
    ...(operation.webSocket === undefined ? {} : WEB_SOCKET_UPGRADE),
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

/** Reads all rows, once the builds that earlier requests have queued have ended and no row changes any more. */
async function readQuietContents(): Promise<unknown> {
  let contents = await readContents(tenants);
  const isQuiet = async () => {
    const unfinished = await tenants.stored.execute(UNFINISHED_BUILDS);
    const earlier = contents;
    contents = await readContents(tenants);
    return unfinished.length === 0 && isDeepStrictEqual(contents, earlier);
  };
  await eventually(isQuiet, { because: 'builds without a step end by themselves; the others hang' });
  return contents;
}

const UNFINISHED_BUILDS = `
  select id from template_builds where status = 'queued' or (status = 'running' and plan like '%"steps":[]%')`;

/** The fake runtime has no terminals, so opening one fails after its event. */
const isRefused = ({ webSocket }: Operation) => webSocket !== undefined;

async function tryCase(operation: Operation, each: AuditCase): Promise<void> {
  const entry = AUDIT_ACTIONS[operation.id as OperationId];
  assert.ok(entry !== 'none');
  const { action, target } = entry;
  // A key of its own, because the failures of a key in a minute have a limited number of events.
  const key = await tenants.createKey(undefined);
  const ids = await createResources(tenants, key, operation.path);
  const content = each.bytes ?? (each.body && JSON.stringify(each.body(ids)));
  const call: Call = async (method, path, body) =>
    (await tenants.call(key, method, path, { body, idempotencyKey: randomUUID() })).body;
  await each.prepare?.(call, ids);
  const sendOnce = (idempotencyKey: string = randomUUID()) => send(operation, ids, { key, content, idempotencyKey });
  const earlier = await listAuditEvents(tenants, key, action);
  const events = async (outcome: AuditEvent['outcome']) =>
    (await listAuditEvents(tenants, key, action)).slice(earlier.length).filter((event) => event.outcome === outcome);

  const before = await readQuietContents();
  const broken = breakAppend(action);
  const failed = await sendOnce();
  broken.mock.restore();
  assert.equal(failed.status, 500, JSON.stringify(failed.body));
  assert.deepEqual(await readContents(tenants), before);
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
  const ofOrganization = ['apiKey', 'template', 'build'].includes(target);
  const projectId = operation.id === 'createProject' ? id : ofOrganization ? undefined : ids.projectId;
  assert.equal(event.projectId, projectId);

  if (operation.idempotency !== 'none') await sendOnce(idempotencyKey);
  assert.equal((await events('allowed')).length, 1, 'a replayed answer has no event');
  await each.prepare?.(call, ids);
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
