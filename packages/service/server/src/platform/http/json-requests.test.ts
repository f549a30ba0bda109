import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { route } from './route.ts';

let executions: number;
let service: TestService;
let whenJson: (signal: AbortSignal) => Promise<void>;
let answerJson: (() => object) | undefined;

beforeEach(async () => {
  executions = 0;
  whenJson = async () => undefined;
  answerJson = undefined;
  service = await startTestService([
    route(operations.runCode, async ({ call: { signal } }) => {
      executions += 1;
      await whenJson(signal);
      return { run: (answerJson?.() ?? { aborted: signal.aborted }) as never };
    }),
    route(operations.getSandbox, async ({ call: { signal } }) => {
      await aborted(signal);
      throw signal.reason;
    }),
  ]);
});
afterEach(() => service.close());

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

describe('a request for JSON', () => {
  const runs = '/v1/sandboxes/sbx_1/code/runs';
  const body = { code: '1', language: 'python' };

  it('a request for JSON runs to its end and is recorded though its client has gone', async () => {
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    whenJson = async () => {
      started.resolve();
      await finish.promise;
    };
    const key = await service.key();
    const leaving = new AbortController();
    const call = service.call('POST', runs, { key, idempotencyKey: 'j', body, signal: leaving.signal });
    await started.promise;
    leaving.abort();
    await assert.rejects(call);
    finish.resolve();
    await eventually(() => service.inFlight.size === 0, { because: 'the request ends' });
    const again = await service.call('POST', runs, { key, idempotencyKey: 'j', body });
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual([again.body.run, executions], [{ aborted: false }, 1]);
  });

  it('a request for JSON that only waits ends when its client goes away', async () => {
    const leaving = new AbortController();
    const call = service.call('GET', '/v1/sandboxes/sbx_1?waitFor=ready', { signal: leaving.signal });
    await eventually(() => service.inFlight.size > 0, { because: 'the request is under way' });
    leaving.abort();
    await assert.rejects(call);
    await eventually(() => service.inFlight.size === 0, { because: 'the request ends' });
    assert.ok(!service.lines.some(({ level }) => Number(level) >= 50), 'it is no fault of the service');
  });

  it('a request for JSON finishes while the service stops; new ones are unavailable', async () => {
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    whenJson = async () => {
      started.resolve();
      await finish.promise;
    };
    const running = service.call('POST', runs, { idempotencyKey: 'd', body });
    await started.promise;
    const drained = service.inFlight.drain(10_000);
    const refused = await service.call('POST', runs, { idempotencyKey: 'e', body });
    assert.deepEqual([refused.status, refused.body.error.code], [503, 'unavailable']);
    assert.ok(refused.headers.get('retry-after'));
    assert.equal((await service.call('GET', '/readyz')).status, 503);
    finish.resolve();
    await drained;
    assert.equal((await running).status, 200);
  });

  it('a request for JSON is awaited by a stopping service until its answer is out', async () => {
    const size = 64 << 20;
    const big = 'x'.repeat(size);
    answerJson = () => ({ stdout: big });
    const headers = {
      authorization: `Bearer ${await service.key()}`,
      'idempotency-key': 'big',
      'content-type': 'application/json',
    };
    const request = httpRequest(service.url + runs, { method: 'POST', headers, agent: false });
    request.end(JSON.stringify(body));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const stopped = service.inFlight.drain(10_000).then(() => service.close());
    let received = 0;
    for await (const chunk of response) received += chunk.length;
    assert.ok(received > size);
    await stopped;
  });

  it('a request for JSON that takes longer than a stopping service grants is ended with that reason', async () => {
    whenJson = async (signal) => {
      await aborted(signal);
      throw signal.reason;
    };
    const running = service.call('POST', runs, { idempotencyKey: 'l', body });
    await eventually(() => executions > 0, { because: 'the run has begun' });
    await service.inFlight.drain(1);
    assert.equal((await running).body.error.code, 'unavailable');
  });

  it('a request for JSON that only waits does not hold up a stopping service', async () => {
    const waiting = service.call('GET', '/v1/sandboxes/sbx_1?waitFor=ready');
    await eventually(() => service.inFlight.size > 0, { because: 'the request is under way' });
    await service.inFlight.drain(2 ** 31 - 1);
    assert.equal((await waiting).body.error.code, 'unavailable');
  });
});
