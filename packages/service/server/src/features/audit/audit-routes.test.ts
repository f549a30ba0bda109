import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it, mock } from 'node:test';
import type { AuditEvent } from '@cloche/contract';
import { openTenants, type Tenants } from '../../../testing/tenants.ts';
import { Claim } from '../../platform/idempotency/idempotency.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants();
});
after(() => tenants.close());

const post = (path: string, body: unknown, idempotencyKey: string = randomUUID(), key = tenants.keys.whole) =>
  tenants.call(key, 'POST', path, { body, idempotencyKey });
const list = (query: string, key = tenants.keys.whole) => tenants.call(key, 'GET', `/v1/audit-events?${query}`);

/** Waits until there are events: a refusal is written right after its response. */
async function eventsOf(query: string, key = tenants.keys.whole): Promise<AuditEvent[]> {
  for (;;) {
    const { status, body } = await list(query, key);
    assert.equal(status, 200, JSON.stringify(body));
    if (body.data.length > 0) return body.data;
  }
}

describe('the audit events of requests', () => {
  it('say which key changed what, from where and in which request', async () => {
    const { body } = await post('/v1/sandboxes', {});
    const [event] = await eventsOf(`target=${body.sandbox.id}`);
    assert.ok(event);
    const { whole } = tenants.keys;
    const { apiKey } = (await tenants.call(whole, 'GET', '/v1/api-keys/current')).body;
    assert.deepEqual(
      [event.action, event.outcome, event.actor, event.projectId, event.ip],
      ['sandbox.created', 'allowed', { type: 'api_key', id: apiKey.id }, body.sandbox.projectId, '127.0.0.1'],
    );
    assert.match(event.requestId ?? '', /^req_/);
  });

  it('the audit events of requests are one for an idempotency key, however often the request is sent', async () => {
    const key = randomUUID();
    const first = await post('/v1/sandboxes', {}, key);
    const second = await post('/v1/sandboxes', {}, key);
    assert.equal(second.body.sandbox.id, first.body.sandbox.id);
    assert.equal((await eventsOf(`target=${first.body.sandbox.id}`)).length, 1);
  });

  it('the audit events of requests exist for each change of a resource', async () => {
    const { id } = (await post('/v1/projects', { name: 'audited' })).body.project;
    await tenants.call(tenants.keys.whole, 'PATCH', `/v1/projects/${id}`, { body: { metadata: { a: 'b' } } });
    await tenants.call(tenants.keys.whole, 'DELETE', `/v1/projects/${id}`);
    const events = await eventsOf(`target=${id}`);
    assert.deepEqual(
      events.map(({ action }) => action),
      ['project.created', 'project.updated', 'project.deleted'],
    );
  });

  it('the audit events of requests are those of what happened, if the answer of the first attempt was lost', async () => {
    const actionsOf = async (target: string) => {
      const allowed = (await eventsOf(`target=${target}`)).filter(({ outcome }) => outcome === 'allowed');
      return allowed.map(({ action }) => action);
    };
    const twice = async (path: string, body: unknown) => {
      const key = randomUUID();
      const complete = mock.method(Claim.prototype, 'complete', () => Promise.reject(new Error('killed')));
      assert.equal((await post(path, body, key)).status, 500);
      complete.mock.restore();
      return (await post(path, body, key)).body;
    };
    const { sandbox } = await twice('/v1/sandboxes', {});
    assert.deepEqual(await actionsOf(sandbox.id), ['sandbox.created']);
    // The token of the first preview is lost, so the retry replaces it.
    const { preview } = await twice(`/v1/sandboxes/${sandbox.id}/previews`, { port: 8000 });
    assert.deepEqual(await actionsOf(preview.id), ['preview.created']);
    const [deleted] = await eventsOf('action=preview.deleted');
    assert.deepEqual(await actionsOf(deleted?.target.id ?? ''), ['preview.created', 'preview.deleted']);
  });

  it('the audit events of requests do not exist for a read', async () => {
    const { nextSeq } = (await list(`afterSeq=${Number.MAX_SAFE_INTEGER}`)).body;
    await tenants.call(tenants.keys.whole, 'GET', '/v1/sandboxes');
    assert.equal((await list(`afterSeq=${Number.MAX_SAFE_INTEGER}`)).body.nextSeq, nextSeq);
  });
});

describe('the audit events of refusals', () => {
  it('the audit events of refusals exist for a scope that is missing, also of a read', async () => {
    const { apiKey, secret } = (await post('/v1/api-keys', { name: 'narrow', scopes: ['file:read'] })).body;
    assert.equal((await tenants.call(secret, 'GET', '/v1/sandboxes')).status, 403);
    const [event] = await eventsOf(`actor=${apiKey.id}`);
    assert.deepEqual(
      [event?.action, event?.target, event?.outcome, event?.code],
      ['request.refused', { type: 'operation', id: 'listSandboxes' }, 'denied', 'forbidden'],
    );
  });

  it('the audit events of refusals exist for a project that the key may not use', async () => {
    const { id } = (await post('/v1/sandboxes', {})).body.sandbox;
    assert.equal((await tenants.call(tenants.keys.bound, 'DELETE', `/v1/sandboxes/${id}`)).status, 403);
    const events = await eventsOf(`target=${id}&action=sandbox.killed`);
    assert.deepEqual(
      events.map(({ outcome, code }) => [outcome, code]),
      [['denied', 'forbidden']],
    );
  });
});

describe('GET /v1/audit-events', () => {
  it('GET /v1/audit-events shows a key that is bound to projects the events of those projects only', async () => {
    const { bound } = tenants.keys;
    const { projectId } = tenants;
    await post('/v1/sandboxes', { projectId }, randomUUID(), bound);
    await post('/v1/sandboxes', {});
    const seen = await eventsOf('limit=500', bound);
    assert.deepEqual([...new Set(seen.map((event) => event.projectId))], [projectId]);
  });

  it('GET /v1/audit-events refuses a key without audit:read, and an invalid time', async () => {
    const { secret } = (await post('/v1/api-keys', { name: 'no audit', scopes: ['event:read'] })).body;
    assert.equal((await list('', secret)).status, 403);
    const { status, body } = await list('from=yesterday');
    assert.deepEqual(
      [status, body.error.code, body.error.details.issues[0].path],
      [400, 'invalid_request', 'query.from'],
    );
  });
});
