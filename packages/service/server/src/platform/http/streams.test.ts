import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type CodeRunEvent, operations } from '@cloche/contract';
import { eventually, settled } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { AppError } from '../base/app-error.ts';
import { streamRoute } from './route.ts';

/** Body of the next stream's handler. */
let produce: (signal: AbortSignal) => AsyncIterable<CodeRunEvent>;
/** Error that rejects the next stream before it opens, if any. */
let refusal: AppError | undefined;
let attempts: (string | undefined)[];
let service: TestService;

const path = '/v1/sandboxes/sbx_1/code/runs/stream';
const complete = { type: 'complete', data: { stdout: 'all' } } as CodeRunEvent;
const stdout = (data: string): CodeRunEvent => ({ type: 'stdout', data });

beforeEach(async () => {
  attempts = [];
  refusal = undefined;
  service = await startTestService([
    streamRoute(operations.streamCode, async ({ call: { signal, idempotency } }) => {
      attempts.push(idempotency?.recordId);
      if (refusal) throw refusal;
      return produce(signal);
    }),
  ]);
});
afterEach(() => service.close());

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

const send = (idempotencyKey = 'k', body: object = {}) =>
  service.call('POST', path, { idempotencyKey, body: { code: '1', language: 'python', ...body } });

/** Returns a response whose data arrives only while it is read. */
async function open(idempotencyKey = 'k'): Promise<IncomingMessage> {
  const request = httpRequest(service.url + path, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
      authorization: `Bearer ${await service.key()}`,
    },
  });
  request.on('error', () => undefined);
  request.end('{"code":"1","language":"python"}');
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.on('error', () => undefined);
  return response;
}

function frames(text: string): { event: string; payload: { type: string; data: unknown } }[] {
  return text
    .split('\n\n')
    .filter((frame) => frame !== '' && !frame.startsWith(':'))
    .map((frame) => {
      const [, event = '', data = ''] = /^event: (.*)\ndata: (.*)$/s.exec(frame) ?? assert.fail(frame);
      return { event, payload: JSON.parse(data) };
    });
}

const events = (text: string) => frames(text).map(({ payload }) => payload);

describe('a stream', () => {
  it('a stream has its headers, and its events as frames of type and data', async () => {
    produce = async function* () {
      yield stdout('a\n\n\u2028b');
      yield complete;
    };
    const answer = await send();
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.match(answer.headers.get('x-request-id') ?? '', /^req_/);
    assert.deepEqual(events(answer.text), [stdout('a\n\n\u2028b'), complete]);
    for (const { event, payload } of frames(answer.text)) assert.equal(event, payload.type);
    assert.doesNotMatch(answer.text, /^id:/m);
  });

  it('a stream hands out its first event before the second exists', async () => {
    const second = Promise.withResolvers<void>();
    produce = async function* () {
      yield stdout('first');
      await second.promise;
      yield complete;
    };
    const response = await open();
    const [chunk] = await once(response.setEncoding('utf8'), 'data');
    assert.deepEqual(events(chunk), [stdout('first')]);
    second.resolve();
    await once(response.resume(), 'end');
  });

  it('a stream answers as plain JSON what is refused before it opens, and leaves no record', async () => {
    refusal = new AppError('sandbox_destroyed', 'gone');
    const answer = await send();
    assert.deepEqual([answer.status, answer.body.error.code], [409, 'sandbox_destroyed']);
    refusal = undefined;
    produce = async function* () {
      yield complete;
    };
    assert.equal((await send('k', { code: 'other' })).status, 200);
  });

  it('a stream is replayed as its complete event alone', async () => {
    produce = async function* () {
      yield stdout('a');
      yield complete;
    };
    await send();
    const again = await send();
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.equal(again.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.deepEqual(events(again.text), [complete]);
    assert.equal(attempts.length, 1);
  });

  for (const [title, fault, expected] of [
    ['an error of the catalogue', new AppError('sandbox_failed', 'it broke'), ['sandbox_failed', 'it broke']],
    ['a fault of ours', new Error('secret'), ['internal', /^(?!.*secret)/]],
  ] as const) {
    it(`ends with an error event after ${title}, and may be run again`, async () => {
      produce = async function* () {
        yield stdout('a');
        throw fault;
      };
      const [, last] = events((await send()).text) as [
        unknown,
        { type: string; data: { name: string; message: string } },
      ];
      assert.equal(last.type, 'error');
      assert.equal(last.data.name, expected[0]);
      assert.match(last.data.message, new RegExp(expected[1]));
      produce = async function* () {
        yield complete;
      };
      assert.equal((await send('k', { code: 'other' })).body.error.code, 'idempotency_key_reused');
      assert.deepEqual(events((await send()).text), [complete]);
      assert.equal(attempts[0], attempts[1]);
    });
  }

  it('a stream that ends without its complete event says internal', async () => {
    produce = async function* () {
      yield stdout('a');
    };
    const [, last] = events((await send()).text) as [unknown, { type: string; data: { name: string } }];
    assert.deepEqual([last.type, last.data.name], ['error', 'internal']);
  });

  it('a stream whose client goes away is canceled, and its record is failed', async () => {
    const ended = Promise.withResolvers<unknown>();
    produce = async function* (signal) {
      try {
        yield stdout('a');
        await aborted(signal);
      } finally {
        ended.resolve(signal.reason);
      }
    };
    const key = await service.key();
    const headers = { authorization: `Bearer ${key}`, 'idempotency-key': 'gone', 'content-type': 'application/json' };
    const request = httpRequest(service.url + path, { method: 'POST', headers, agent: false });
    request.on('error', () => undefined).end('{"code":"1","language":"python"}');
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => undefined);
    await once(response, 'data');
    request.destroy();
    assert.match(String(await ended.promise), /client closed/);
    await eventually(() => service.inFlight.size === 0, { because: 'the request ends' });
    produce = async function* () {
      yield complete;
    };
    const again = await service.call('POST', path, {
      key,
      idempotencyKey: 'gone',
      body: { code: '1', language: 'python' },
    });
    assert.deepEqual(events(again.text), [complete]);
  });

  it('a stream is not read ahead of a client that stops reading', async () => {
    let produced = 0;
    const chunk = 'x'.repeat(1 << 20);
    produce = async function* () {
      for (; produced < 200; produced++) yield stdout(chunk);
      yield complete;
    };
    const response = await open();
    response.pause();
    // The socket and its buffers hold a few megabytes; after that, nothing is sent any more.
    await settled(() => produced, { forMs: 150 });
    assert.ok(produced < 50, `${produced} MiB were produced`);
    response.destroy();
  });

  it('ends with unavailable when the service stops', async () => {
    produce = async function* (signal) {
      yield stdout('a');
      await aborted(signal);
    };
    const response = (await open()).setEncoding('utf8');
    await once(response, 'data');
    const rest = response.toArray();
    await service.inFlight.drain(10_000);
    assert.deepEqual(
      events((await rest).join('')).map(({ type, data }) => [type, (data as { name: string }).name]),
      [['error', 'unavailable']],
    );
  });

  it('a stream whose body arrives after the service began to stop is unavailable', async () => {
    produce = async function* (signal) {
      await aborted(signal);
      yield complete;
    };
    const headers = {
      authorization: `Bearer ${await service.key()}`,
      'idempotency-key': 'late',
      'content-type': 'application/json',
    };
    const request = httpRequest(service.url + path, { method: 'POST', headers, agent: false });
    request.write('{"code":"1",');
    // A response to another request shows that the first request's headers have been read.
    await service.call('GET', '/healthz');
    const drained = service.inFlight.drain(10_000);
    request.end('"language":"python"}');
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    assert.match((await response.setEncoding('utf8').toArray()).join(''), /"unavailable"/);
    await drained;
  });
});
