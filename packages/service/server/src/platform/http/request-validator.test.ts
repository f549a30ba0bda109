import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { ErrorCode } from '@cloche/contract';
import { Type } from 'typebox';
import type { ApiCall } from '../../../testing/call-api.ts';
import { assertError, type EchoService, pythonCode, runs, startEchoService } from '../../../testing/echo-service.ts';
import { bodyValidator } from './request-validator.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

const post = (body: unknown, headers: Record<string, string> = {}): [string, string, ApiCall] => [
  'POST',
  '/v1/sandboxes',
  { body, headers },
];

const badRequests: [title: string, request: [string, string, ApiCall], code: ErrorCode, names: RegExp][] = [
  ['malformed JSON', post('{"ttlMs":'), 'invalid_request', /not valid JSON.*"body"/],
  ['a byte order mark', post('\ufeff{}'), 'invalid_request', /not valid JSON/],
  ['a body that is null', post('null'), 'invalid_request', /body must be an object, not null/],
  ['a body that is an array', post([]), 'invalid_request', /not an array/],
  ['a body that is text', post('"x"'), 'invalid_request', /not a string/],
  ['a body of deep nesting', post('['.repeat(500_000) + ']'.repeat(500_000)), 'invalid_request', /body/],
  [
    'a field of deep nesting',
    post(`{"template":${'['.repeat(1_999)}${']'.repeat(1_999)}}`),
    'invalid_request',
    /body has more than 256 levels/,
  ],
  [
    'a field of some nesting',
    post(`{"template":${'['.repeat(255)}${']'.repeat(255)}}`),
    'invalid_request',
    /body.template must be a string/,
  ],
  [
    'more values than any honest body has',
    post({ metadata: Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [index, ''])) }),
    'invalid_request',
    /body has more than 2000 values/,
  ],
  [
    'an unknown field',
    post({ image: 'x' }),
    'invalid_request',
    /body.image is not a known field; use one of: projectId/,
  ],
  ['an unknown field inside', post({ resources: { gpu: 1 } }), 'invalid_request', /body.resources.gpu .*cpu, memoryMb/],
  ['text for a number', post({ ttlMs: '60000' }), 'invalid_request', /body.ttlMs must be a whole number, not a string/],
  ['a fraction for a whole number', post({ ttlMs: 1.5 }), 'invalid_request', /whole number, not 1.5/],
  ['a number below the least', post({ ttlMs: 0 }), 'invalid_request', /body.ttlMs must be at least 1/],
  ['null for a text', post({ template: null }), 'invalid_request', /body.template must be a string, not null/],
  [
    'too many labels',
    post({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, ''])) }),
    'invalid_request',
    /metadata must have at most 16 entries/,
  ],
  [
    'a long label name',
    post({ metadata: { ['k'.repeat(65)]: '' } }),
    'invalid_request',
    /has an invalid name, which must have at most 64 characters/,
  ],
  [
    'a long label value',
    post({ metadata: { k: 'v'.repeat(513) } }),
    'invalid_request',
    /body.metadata.k must have at most 512/,
  ],
  ['a label that is a number', post({ metadata: { k: 1 } }), 'invalid_request', /body.metadata.k must be a string/],
  ['a bad environment name', post({ env: { 'A B': '' } }), 'invalid_request', /letters, digits and underscores/],
  [
    'an unknown mode',
    post({ networkPolicy: { mode: 'open' } }),
    'invalid_request',
    /one of "unrestricted".*not "open"/,
  ],
  [
    'a field named __proto__',
    post('{"metadata":{"__proto__":"x"}}'),
    'invalid_request',
    /body.metadata must not have a field named "__proto__"/,
  ],
  ['the same, escaped', post('{"metadata":{"\\u005f_proto__":"x"}}'), 'invalid_request', /__proto__/],
  ['a NUL in a text', post('{"metadata":{"k":"a\\u0000"}}'), 'invalid_request', /body.metadata.k.*NUL/],
  ['a NUL in a name', post('{"metadata":{"a\\u0000":""}}'), 'invalid_request', /NUL/],
  ['half of a surrogate pair', post('{"metadata":{"k":"\\ud800"}}'), 'invalid_request', /surrogate/],
  ['bytes that are no UTF-8', post(Buffer.from([0x22, 0xff, 0x22])), 'invalid_request', /UTF-8/],
  ['another content type', post('{}', { 'content-type': 'text/plain' }), 'unsupported_media_type', /application\/json/],
  ['a form', post('a=1', { 'content-type': 'application/x-www-form-urlencoded' }), 'unsupported_media_type', /JSON/],
  ['no content type', post(Buffer.from('{}'), { 'content-type': '' }), 'unsupported_media_type', /JSON/],
  [
    'another charset',
    post('{}', { 'content-type': 'application/json; charset=latin1' }),
    'unsupported_media_type',
    /UTF-8/,
  ],
  ['a compressed body', post('{}', { 'content-encoding': 'gzip' }), 'unsupported_media_type', /not compressed/],
  [
    'a type that only begins like JSON',
    post('{}', { 'content-type': 'application/jsonp' }),
    'unsupported_media_type',
    /JSON/,
  ],
  ['a body over the limit', post('x'.repeat(5 << 20)), 'payload_too_large', /4194304 bytes/],
  ['a missing field', runs({ code: '1' }), 'invalid_request', /body.language is required/],
  ['two missing fields', runs({}), 'invalid_request', /body.code is required; body.language is required/],
  ['an empty text', runs(pythonCode({ code: '' })), 'invalid_request', /body.code must not be empty/],
  ['a number over the most', runs(pythonCode({ timeoutMs: 600_001 })), 'invalid_request', /at most 600000/],
  ['an id of another kind', runs(pythonCode({ contextId: 'x' })), 'invalid_request', /starts with \\?"cctx_/],
  [
    'a required body left out',
    ['POST', '/v1/sandboxes/sbx_1/code/runs', { idempotencyKey: 'k' }],
    'invalid_request',
    /body is required/,
  ],
  [
    'a required key left out',
    ['POST', '/v1/sandboxes/sbx_1/code/runs', { body: pythonCode() }],
    'invalid_request',
    /idempotency-key is required.*Idempotency-Key/,
  ],
  [
    'a key that is too long',
    ['POST', '/v1/sandboxes', { body: {}, idempotencyKey: 'k'.repeat(256) }],
    'invalid_request',
    /1 to 255/,
  ],
  [
    'a key that is not ASCII',
    ['POST', '/v1/sandboxes', { body: {}, idempotencyKey: 'caf\u00e9' }],
    'invalid_request',
    /ASCII/,
  ],
  ['an empty key', ['POST', '/v1/sandboxes', { body: {}, idempotencyKey: '' }], 'invalid_request', /1 to 255/],
  [
    'a body where none is taken',
    ['POST', '/v1/sandboxes/sbx_1/code/contexts/cctx_1/interrupt', { body: { a: 1 } }],
    'invalid_request',
    /accepts no body/,
  ],
  [
    'an unknown parameter',
    ['GET', '/v1/sandboxes?size=1', {}],
    'invalid_request',
    /query.size is not a parameter.*projectId.*metadata\.<key>/,
  ],
  [
    'a parameter where none is taken',
    ['DELETE', '/v1/sandboxes/sbx_1?force=1', {}],
    'invalid_request',
    /query.force.*remove it/,
  ],
  [
    'a parameter given twice',
    ['GET', '/v1/sandboxes?status=ready&status=idle', {}],
    'invalid_request',
    /query.status is given more than once/,
  ],
  ['an unknown value', ['GET', '/v1/sandboxes?status=alive', {}], 'invalid_request', /query.status must be one of/],
  [
    'text for a number in the query',
    ['GET', '/v1/sandboxes/sbx_1?waitMs=soon', {}],
    'invalid_request',
    /query.waitMs must be a whole number/,
  ],
  [
    'a number over the most in the query',
    ['GET', '/v1/sandboxes/sbx_1?waitMs=60001', {}],
    'invalid_request',
    /at most 60000/,
  ],
  ['a broken escape in the query', ['GET', '/v1/sandboxes?projectId=%ff', {}], 'invalid_request', /percent escape/],
  ['a NUL in the query', ['GET', '/v1/sandboxes?projectId=%00', {}], 'invalid_request', /NUL/],
  ['a broken escape in the path', ['GET', '/v1/sandboxes/%ff', {}], 'invalid_request', /path/],
  ['an unknown id', ['GET', '/v1/sandboxes/sbx_2', {}], 'not_found', /sbx_2/],
  ['an id of a thousand characters', ['GET', `/v1/sandboxes/${'x'.repeat(1000)}`, {}], 'not_found', /sandbox/],
  ['an id with an escaped slash', ['GET', '/v1/sandboxes/..%2f..%2fetc', {}], 'not_found', /sandbox/],
  ['an unknown path', ['GET', '/v1/cellars', {}], 'not_found', /\/v1\/cellars/],
  ['a trailing slash', ['GET', '/v1/sandboxes/', {}], 'not_found', /There is no/],
  ['a method that the path has not', ['PUT', '/v1/sandboxes', { body: {} }], 'method_not_allowed', /POST, GET/],
];

describe('a malformed request', () => {
  for (const [title, [method, path, options], code, names] of badRequests) {
    it(`${title} is ${code}`, async () => {
      const before = service.made;
      assertError(await service.call(method, path, options), code, names);
      assert.equal(service.made, before);
    });
  }

  it('a malformed request lists every issue with its path', async () => {
    const { body } = await service.call('POST', '/v1/sandboxes?x=1', { body: { ttlMs: 0, image: 1 } });
    assert.deepEqual(body.error.details.issues.map(({ path }: { path: string }) => path).sort(), [
      'body.image',
      'body.ttlMs',
      'query.x',
    ]);
  });

  it('a malformed request is refused however much of it is wrong', async () => {
    const before = service.made;
    for (const count of [7, 8, 9, 1_900]) {
      const unknown = Object.fromEntries(Array.from({ length: count }, (_, n) => [`field${n}`, 1]));
      assertError(
        await service.call('POST', '/v1/sandboxes', { body: { ...unknown, ttlMs: 'soon' } }),
        'invalid_request',
        /field0/,
      );
    }
    const query = Array.from({ length: 500 }, (_, n) => `p${n}`).join('&');
    assertError(await service.call('GET', `/v1/sandboxes?${query}`), 'invalid_request', /query.p0/);
    assert.equal(service.made, before);
  });

  it('a malformed request has its answer also when its body is far too large', async () => {
    const body = `"${'x'.repeat(30_000_000)}"`;
    assertError(await service.call('POST', '/v1/sandboxes', { body }), 'payload_too_large', /4194304 bytes/);
    const headers = { 'content-type': 'text/plain' };
    assertError(await service.call('POST', '/v1/sandboxes', { body, headers }), 'unsupported_media_type', /JSON/);
    const chunked = `4\r\n"xxx\r\n${`10000\r\n${'x'.repeat(65_536)}\r\n`.repeat(200)}0\r\n\r\n`;
    const head = `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await service.key()}\r\n`;
    const type = 'content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
    const after = 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    const answers = await service.raw(head + type + chunked + after);
    assert.deepEqual(answers.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 200']);
  });

  it('a malformed request has a short answer however long the names in it are and however deep they lie', async () => {
    const long = 'n'.repeat(500_000);
    const answers = [
      await service.call('POST', '/v1/sandboxes', {
        body: { [long]: 1, metadata: { [long]: '' }, env: { [`${long}-`]: '' } },
      }),
      await service.call('POST', '/v1/sandboxes', { body: `${'['.repeat(50_000)}"\\u0000"${']'.repeat(50_000)}` }),
      await service.call('GET', `/v1/sandboxes?${'a&'.repeat(7000)}`),
    ];
    for (const answer of answers) {
      assertError(answer, 'invalid_request', /is|must|has/);
      assert.ok(answer.text.length < 20_000, `${answer.text.length}`);
    }
  });
});

it('the validator compiles a schema when the first value is checked, and only once', () => {
  let reads = 0;
  const schema = new Proxy(Type.Object({ name: Type.String() }), {
    get(target, name, receiver) {
      reads += 1;
      return Reflect.get(target, name, receiver);
    },
  });
  const validate = bodyValidator(schema);
  assert.equal(reads, 0);
  assert.deepEqual(validate({ name: 'x' }), { name: 'x' });
  const compiling = reads;
  assert.ok(compiling > 0);
  validate({ name: 'y' });
  assert.equal(reads, compiling);
});
