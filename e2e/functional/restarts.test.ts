import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { isolation, sameWithEachRuntime } from '../support/claims.ts';
import { describeGrowth, hostFootprint } from '../support/host-footprint.ts';
import { type OwnService, testService } from '../support/service.ts';

let service: OwnService | undefined;
beforeEach(async () => {
  // No pool: pooled instances start and end at any time, and a test below counts what is on the host.
  service ??= await testService({ CLOCHE_POOL_SIZE: '0' });
});
after(() => service?.close());

function running(): OwnService {
  if (!service) throw new Error('no service');
  return service;
}

const kept = sameWithEachRuntime('the server keeps it in its database; other tests here restart it beside each');

describe('killing the server with -9', () => {
  it('in mid-run fails the record, and keeps sandboxes, contexts and their variables', async () => {
    const { api } = running();
    const { id } = await api.readySandbox();
    const first = await api.run(id, 'kept = 42');
    const key = randomUUID();
    const body = { code: 'import time; time.sleep(1); kept', language: 'python' };
    const lost = api.post(`/v1/sandboxes/${id}/code/runs`, body, key).catch((error: unknown) => error);
    await eventually(async () => (await api.get(`/v1/sandboxes/${id}`)).body.sandbox.status === 'running');
    await running().kill('server');
    await lost;
    await running().restart('server');

    const again = await api.post(`/v1/sandboxes/${id}/code/runs`, body, key);
    assert.equal(again.status, 200);
    assert.equal(again.headers.get('idempotency-replayed'), null);
    assert.equal(again.body.run.outputs[0].value, '42');
    assert.equal(again.body.run.contextId, first.contextId);
    assert.equal(again.body.run.stateLost, undefined);
    const contexts = (await api.get(`/v1/sandboxes/${id}/code/contexts`)).body.data;
    assert.deepEqual(
      contexts.map((context: { id: string }) => context.id),
      [first.contextId],
    );
    await api.delete(`/v1/sandboxes/${id}`);
  });

  it('right after an answer replays it, and does nothing twice', kept, async () => {
    const { api } = running();
    const { id } = await api.readySandbox();
    await api.run(id, 'count = 0');
    const key = randomUUID();
    const body = { code: 'count += 1; count', language: 'python' };
    const first = await api.post(`/v1/sandboxes/${id}/code/runs`, body, key);
    await running().kill('server');
    await running().restart('server');
    const again = await api.post(`/v1/sandboxes/${id}/code/runs`, body, key);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
    assert.equal((await api.run(id, 'count')).outputs[0]?.value, '1');
    await api.delete(`/v1/sandboxes/${id}`);
  });

  it('a kill of the server with -9 in mid-creation never leaves a second sandbox for one key', async () => {
    const { api } = running();
    // Objects that the first sandbox adds to the host stay.
    const { id } = await api.readySandbox();
    const before = hostFootprint();
    await api.delete(`/v1/sandboxes/${id}`);
    for (const delayMs of [0, 3, 10, 30]) {
      const key = randomUUID();
      const label = randomUUID();
      const create = () => api.post('/v1/sandboxes', { metadata: { label } }, key);
      const lost = create().catch((error: unknown) => error);
      await delay(delayMs);
      await running().kill('server');
      await lost;
      await running().restart('server');
      const again = await create();
      assert.equal(again.status, 201, JSON.stringify(again.body));
      const { data } = (await api.get(`/v1/sandboxes?metadata.label=${label}&include=historical`)).body;
      assert.deepEqual(
        data.map(({ id }: { id: string }) => id),
        [again.body.sandbox.id],
      );
      const ready = await api.get(`/v1/sandboxes/${again.body.sandbox.id}?waitFor=ready&waitMs=30000`);
      assert.equal(ready.body.sandbox.status, 'ready');
      assert.equal((await api.run(again.body.sandbox.id, '1')).outputs[0]?.value, '1');
      await api.delete(`/v1/sandboxes/${again.body.sandbox.id}`);
    }
    const left = () => describeGrowth(before, hostFootprint(), running().installationId);
    await eventually(() => left().length === 0).catch(() => undefined);
    assert.deepEqual(left(), []);
  });

  it('killing the server with -9 does not postpone an expiry that fell due meanwhile', kept, async () => {
    const { api } = running();
    const startedAt = performance.now();
    const other = (await api.readySandbox()).id;
    // Long enough that the sandbox is ready and the server has ended before it expires, however long a launch takes
    // here.
    const ttlMs = Math.round(1000 + 3 * (performance.now() - startedAt));
    const { id, expiresAt } = await api.readySandbox({ ttlMs });
    await running().kill('server');
    assert.ok(Date.now() < Date.parse(expiresAt), 'it did not fall due before');
    await delay(Date.parse(expiresAt) - Date.now() + 100);
    await running().restart('server');
    await eventually(async () => (await api.get(`/v1/sandboxes/${id}`)).body.sandbox.status === 'destroyed');
    assert.equal((await api.get(`/v1/sandboxes/${id}`)).body.sandbox.destroyedReason, 'ttl_expired');
    await api.delete(`/v1/sandboxes/${other}`);
  });
});

describe('killing hostd with -9', () => {
  it('killing hostd with -9 leaves sandboxes running, and the next hostd stops them', async () => {
    const { api } = running();
    const { id } = await api.readySandbox();
    await api.run(id, 'kept = 1');
    await running().kill('hostd');
    const run = await api.post(`/v1/sandboxes/${id}/code/runs`, { code: 'kept', language: 'python' });
    if (isolation.hostRestarts === 'unnoticed') assert.equal(run.body.run.outputs[0]?.value, '1');
    else assert.deepEqual([run.status, run.body.error.code], [503, 'unavailable']);
    await running().restart('hostd');
    assert.equal((await api.run(id, 'kept')).outputs[0]?.value, '1');
    assert.equal((await api.delete(`/v1/sandboxes/${id}`)).body.sandbox.status, 'destroyed');
  });

  it('killing hostd with -9 makes creations unavailable or wait, and nothing is left half made', async () => {
    const { api } = running();
    await running().kill('hostd');
    const created = await api.post('/v1/sandboxes', {});
    await running().restart('hostd');
    assert.ok([201, 503].includes(created.status));
    if (created.status === 201) {
      const { sandbox } = (await api.get(`/v1/sandboxes/${created.body.sandbox.id}?waitFor=ready&waitMs=30000`)).body;
      assert.ok(['ready', 'failed'].includes(sandbox.status), sandbox.status);
      await api.delete(`/v1/sandboxes/${sandbox.id}`);
    }
  });
});

describe('an instance that is lost', () => {
  it('an instance that is lost makes its sandbox destroyed with platform_cleanup', async () => {
    const { api } = running();
    const { id } = await api.readySandbox();
    await running().killInstance(id);
    await eventually(async () => (await api.get(`/v1/sandboxes/${id}`)).body.sandbox.status === 'destroyed', {
      within: 30_000,
    });
    assert.equal((await api.get(`/v1/sandboxes/${id}`)).body.sandbox.destroyedReason, 'platform_cleanup');
  });
});
