import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { assertError, type EchoService, pythonCode, startEchoService } from '../../../testing/echo-service.ts';
import { AppError } from '../base/app-error.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('an idempotent request', () => {
  const create = (idempotencyKey: string, body: unknown = {}) =>
    service.call('POST', '/v1/sandboxes', { body, idempotencyKey });

  it('an idempotent request is executed once, however many come at once, and replayed with its status and body', async () => {
    const before = service.made;
    const answers = await Promise.all(Array.from({ length: 30 }, () => create('many')));
    assert.equal(service.made, before + 1);
    const first = answers.find(({ status, headers }) => status === 201 && !headers.has('idempotency-replayed'));
    for (const answer of [...answers, await create('many')]) {
      if (answer.status === 409) assert.ok(answer.headers.get('retry-after'));
      else assert.deepEqual([answer.status, answer.text], [201, first?.text]);
    }
    assert.equal((await create('many')).headers.get('idempotency-replayed'), 'true');
  });

  it('an idempotent request is the same however its path is escaped', async () => {
    const body = pythonCode();
    const path = (id: string) => `/v1/sandboxes/${id}/code/runs`;
    await service.call('POST', path('sbx_1'), { body, idempotencyKey: 'path' });
    const again = await service.call('POST', path('sbx%5f1'), { body, idempotencyKey: 'path' });
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    const other = await service.call('POST', path('sbx_2'), { body, idempotencyKey: 'path' });
    assert.equal(other.headers.get('idempotency-replayed'), null);
  });

  it('an idempotent request with another body is refused', async () => {
    await create('body', { ttlMs: 1 });
    assertError(await create('body', { ttlMs: 2 }), 'idempotency_key_reused', /new key/);
  });

  it('an idempotent request without a body equals one with an empty object', async () => {
    const first = await service.call('POST', '/v1/sandboxes', { idempotencyKey: 'empty' });
    assert.equal((await create('empty', {})).text, first.text);
  });

  it('an idempotent request that was invalid or rejected may be sent again with another body', async () => {
    assertError(await create('again', { ttlMs: 0 }), 'invalid_request', /ttlMs/);
    service.failWith(new AppError('quota_exceeded', 'full', { details: { quota: 'sandboxes', limit: 1, used: 1 } }));
    assertError(await create('again', { ttlMs: 1 }), 'quota_exceeded', /full/);
    service.failWith(undefined);
    assert.equal((await create('again', { ttlMs: 2 })).status, 201);
  });

  it('an idempotent request that failed runs again with the same body only', async () => {
    service.failWith(new Error('secret detail'));
    const failed = await create('failed', { ttlMs: 1 });
    assertError(failed, 'internal', /request id/);
    assert.doesNotMatch(failed.text, /secret detail/);
    service.failWith(undefined);
    assertError(await create('failed', { ttlMs: 2 }), 'idempotency_key_reused', /./);
    const again = await create('failed', { ttlMs: 1 });
    assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [201, null]);
  });
});
