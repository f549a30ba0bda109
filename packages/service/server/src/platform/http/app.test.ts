import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { assertError, type EchoService, pythonCode, runs, startEchoService } from '../../../testing/echo-service.ts';
import { AppError } from '../base/app-error.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('a good request', () => {
  it('a good request may filter by a label whatever its key holds', async () => {
    for (const name of ['metadata.', 'metadata.a%0Ab', 'metadata.a.b', 'metadata.__proto__']) {
      assert.equal((await service.call('GET', `/v1/sandboxes?${name}=x`)).status, 200, name);
    }
  });

  it('a good request may leave an optional body out, with and without a content type', async () => {
    assert.deepEqual((await service.call('POST', '/v1/sandboxes')).body.sandbox.body, {});
    const typed = await service.call('POST', '/v1/sandboxes', { headers: { 'content-type': 'application/json' } });
    assert.equal(typed.status, 201);
  });

  it('a good request may send an empty object where no body is taken', async () => {
    const path = '/v1/sandboxes/sbx_1/code/contexts/cctx_1/interrupt';
    assert.equal((await service.call('POST', path, { body: {} })).status, 200);
    assert.equal((await service.call('DELETE', '/v1/sandboxes/sbx_1', { body: {} })).status, 200);
  });

  it('a good request may hold a NUL in its code', async () => {
    const answer = await service.call(...runs('{"code":"a\\u0000","language":"python"}'));
    assert.equal(answer.body.run.stdout, 'a\0');
  });

  it('a good request may spell its content type in any case and name UTF-8', async () => {
    const headers = { 'content-type': 'Application/JSON; Charset="UTF-8"' };
    assert.equal((await service.call('POST', '/v1/sandboxes', { body: '{}', headers })).status, 201);
  });

  it('a good request has its query read as the contract types it', async () => {
    const waited = await service.call('GET', '/v1/sandboxes/sbx_1?waitFor=ready&waitMs=5');
    assert.deepEqual(waited.body.sandbox.query, { waitFor: 'ready', waitMs: 5 });
    const listed = await service.call('GET', '/v1/sandboxes?metadata.a%2Eb=1%202&metadata.n=7');
    assert.deepEqual(listed.body.data[0].query, { 'metadata.a.b': '1 2', 'metadata.n': '7' });
  });

  it('a good request keeps a request id of letters, digits, dots, hyphens and underscores, and replaces any other', async () => {
    const id = async (sent: string) =>
      (await service.call('GET', '/v1/sandboxes', { headers: { 'x-request-id': sent } })).headers.get('x-request-id');
    for (const kept of ['a', 'My-id_1.2', 'x'.repeat(128)]) assert.equal(await id(kept), kept);
    for (const other of ['', 'x'.repeat(129), 'my id', 'a,b', 'a"b', '<b>', '$(id)', 'a/b', 'caf\u00e9']) {
      assert.match((await id(other)) ?? '', /^req_/, other);
    }
  });

  it('a good request answers HEAD like GET without the body', async () => {
    const answer = await service.call('HEAD', '/v1/sandboxes/sbx_1');
    assert.deepEqual([answer.status, answer.text], [200, '']);
  });
});

describe('a path with other methods', () => {
  for (const method of ['OPTIONS', 'PUT', 'PATCH', 'PROPFIND', 'QUERY']) {
    it(`a path with other methods answers ${method} with those it has, to a client with a key`, async () => {
      const answer = await service.call(method, '/v1/sandboxes/sbx_1');
      assertError(answer, 'method_not_allowed', /GET, HEAD, DELETE/);
      assert.equal(answer.headers.get('allow'), 'GET, HEAD, DELETE');
      assertError(await service.call(method, '/v1/sandboxes/sbx_1', { key: null }), 'unauthorized', /API key/);
    });
  }

  it('logs none of it as an error', () => {
    assert.deepEqual(
      service.lines.filter(({ level }) => Number(level) >= 50),
      [],
    );
  });
});

describe('the log', () => {
  it('the log has one line for a request, with ids and outcome, and nothing that a client wrote but the path', async () => {
    const requestId = randomUUID();
    const secret = 'print("secret")';
    await service.call('POST', '/v1/sandboxes/sbx_9/code/runs', {
      body: pythonCode({ code: secret }),
      idempotencyKey: randomUUID(),
      headers: { 'x-request-id': requestId },
    });
    const lines = service.lines.filter((line) => line.requestId === requestId);
    assert.equal(lines.length, 1);
    assert.deepEqual(
      [lines[0]?.operation, lines[0]?.status, lines[0]?.idempotency, typeof lines[0]?.durationMs],
      ['runCode', 200, 'executed', 'number'],
    );
    assert.doesNotMatch(JSON.stringify(service.lines), /print|clk_/);
  });

  it('the log has an error where the service fails, and none where a bound of the client is over', async () => {
    const levelOf = async (failure: AppError) => {
      const requestId = randomUUID();
      service.failWith(failure);
      await service.call('POST', '/v1/sandboxes', { headers: { 'x-request-id': requestId } });
      service.failWith(undefined);
      return service.lines.find((line) => line.requestId === requestId && line.msg === 'request')?.level;
    };
    assert.equal(await levelOf(new AppError('unavailable', 'not ready in time', { isClientsBound: true })), 30);
    assert.equal(await levelOf(new AppError('unavailable', 'no capacity')), 50);
  });
});
