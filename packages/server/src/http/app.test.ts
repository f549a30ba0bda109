import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type CodeRun, ERRORS, type ErrorCode, operations, type Sandbox } from '@cloche/contract';
import { AppError, notFound } from '../app-error.ts';
import { route } from './route.ts';
import { type Answer, type CallOptions, startTestService, type TestService } from './test-service.fixture.ts';

let service: TestService;
let made = 0;
let failure: unknown;
// The app sends what a handler answers as it is; these stand for whole ones.
const sandbox = (fields: object) => ({ sandbox: fields as Sandbox });
const run = (fields: object) => ({ run: fields as CodeRun });

before(async () => {
  service = await startTestService([
    route(operations.createSandbox, async ({ body }) => {
      if (failure) throw failure;
      made++;
      return sandbox({ made, body });
    }),
    route(operations.listSandboxes, async ({ query }) => ({
      data: [{ query }] as unknown as Sandbox[],
      hasMore: false,
    })),
    route(operations.getSandbox, async ({ params, query }) => {
      if (params.sandboxId !== 'sbx_1') throw notFound('sandbox', params.sandboxId);
      return sandbox({ id: params.sandboxId, query });
    }),
    route(operations.killSandbox, async ({ params }) => sandbox({ id: params.sandboxId })),
    route(operations.extendSandbox, async ({ body }) => sandbox(body)),
    route(operations.interruptContext, async () => ({ context: {} as never })),
    route(operations.runCode, async ({ body }) => run({ stdout: body.code })),
  ]);
});
after(() => service.close());

function assertError(answer: Answer, code: ErrorCode, names: RegExp): void {
  assert.deepEqual([answer.status, answer.body?.error?.code], [ERRORS[code].status, code], answer.text);
  const { error } = answer.body;
  assert.match(`${error.message} ${JSON.stringify(error.details ?? '')}`, names);
  assert.equal(error.requestId, answer.headers.get('x-request-id'));
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  assert.doesNotMatch(answer.text, /node_modules|at .*\.ts|FST_|SQLITE/);
}

const python = (rest: object = {}) => ({ code: '1', language: 'python', ...rest });
const post = (body: unknown, headers: Record<string, string> = {}): [string, string, CallOptions] => [
  'POST',
  '/v1/sandboxes',
  { body, headers },
];
const runs = (body: unknown): [string, string, CallOptions] => [
  'POST',
  '/v1/sandboxes/sbx_1/code/runs',
  { body, idempotencyKey: randomUUID() },
];

const badRequests: [title: string, request: [string, string, CallOptions], code: ErrorCode, names: RegExp][] = [
  ['malformed JSON', post('{"ttlMs":'), 'invalid_request', /not valid JSON.*"body"/],
  ['a byte order mark', post('\ufeff{}'), 'invalid_request', /not valid JSON/],
  ['a body that is null', post('null'), 'invalid_request', /body must be an object, not null/],
  ['a body that is an array', post([]), 'invalid_request', /not an array/],
  ['a body that is text', post('"x"'), 'invalid_request', /not a string/],
  ['a body of deep nesting', post('['.repeat(500_000) + ']'.repeat(500_000)), 'invalid_request', /body/],
  [
    'a field of deep nesting',
    post(`{"template":${'['.repeat(99_999)}${']'.repeat(99_999)}}`),
    'invalid_request',
    /body.template must be a string/,
  ],
  [
    'an unknown field',
    post({ image: 'x' }),
    'invalid_request',
    /body.image is not a known field; there are: projectId/,
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
    /has a name that must have at most 64 characters/,
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
    /body.metadata may not have a field named "__proto__"/,
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
  ['a body over the limit', post('x'.repeat(3 << 20)), 'payload_too_large', /2 MiB/],
  ['a missing field', runs({ code: '1' }), 'invalid_request', /body.language is required/],
  ['two missing fields', runs({}), 'invalid_request', /body.code is required; body.language is required/],
  ['an empty text', runs(python({ code: '' })), 'invalid_request', /body.code must not be empty/],
  ['a number over the most', runs(python({ timeoutMs: 600_001 })), 'invalid_request', /at most 600000/],
  ['an id of another kind', runs(python({ contextId: 'x' })), 'invalid_request', /starts with \\?"cctx_/],
  [
    'a required body left out',
    ['POST', '/v1/sandboxes/sbx_1/code/runs', { idempotencyKey: 'k' }],
    'invalid_request',
    /body is required/,
  ],
  [
    'a required key left out',
    ['POST', '/v1/sandboxes/sbx_1/code/runs', { body: python() }],
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
    /takes none/,
  ],
  [
    'an unknown parameter',
    ['GET', '/v1/sandboxes?limit=1', {}],
    'invalid_request',
    /query.limit is no parameter.*projectId.*metadata\.<key>/,
  ],
  [
    'a parameter where none is taken',
    ['DELETE', '/v1/sandboxes/sbx_1?force=1', {}],
    'invalid_request',
    /query.force.*takes none/,
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
      const before = made;
      assertError(await service.call(method, path, options), code, names);
      assert.equal(made, before);
    });
  }

  it('lists every issue with its path', async () => {
    const { body } = await service.call('POST', '/v1/sandboxes?x=1', { body: { ttlMs: 0, image: 1 } });
    assert.deepEqual(body.error.details.issues.map(({ path }: { path: string }) => path).sort(), [
      'body.image',
      'body.ttlMs',
      'query.x',
    ]);
  });

  it('is refused however much of it is wrong', async () => {
    const before = made;
    for (const count of [7, 8, 9, 10_000]) {
      const unknown = Object.fromEntries(Array.from({ length: count }, (_, n) => [`field${n}`, 1]));
      assertError(
        await service.call('POST', '/v1/sandboxes', { body: { ...unknown, ttlMs: 'soon' } }),
        'invalid_request',
        /field0/,
      );
    }
    const query = Array.from({ length: 500 }, (_, n) => `p${n}`).join('&');
    assertError(await service.call('GET', `/v1/sandboxes?${query}`), 'invalid_request', /query.p0/);
    assert.equal(made, before);
  });

  it('has its answer also when its body is far too large', async () => {
    const body = `"${'x'.repeat(30_000_000)}"`;
    assertError(await service.call('POST', '/v1/sandboxes', { body }), 'payload_too_large', /2 MiB/);
    const headers = { 'content-type': 'text/plain' };
    assertError(await service.call('POST', '/v1/sandboxes', { body, headers }), 'unsupported_media_type', /JSON/);
    const chunked = `4\r\n"xxx\r\n${`10000\r\n${'x'.repeat(65_536)}\r\n`.repeat(200)}0\r\n\r\n`;
    const head = `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await service.key()}\r\n`;
    const type = 'content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
    const after = 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    const answers = await service.raw(head + type + chunked + after);
    assert.deepEqual(answers.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 200']);
  });

  it('has a short answer however long the names in it are and however deep they lie', async () => {
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

describe('a good request', () => {
  it('may filter by a label whatever its key holds', async () => {
    for (const name of ['metadata.', 'metadata.a%0Ab', 'metadata.a.b', 'metadata.__proto__']) {
      assert.equal((await service.call('GET', `/v1/sandboxes?${name}=x`)).status, 200, name);
    }
  });

  it('may leave an optional body out, with and without a content type', async () => {
    assert.deepEqual((await service.call('POST', '/v1/sandboxes')).body.sandbox.body, {});
    const typed = await service.call('POST', '/v1/sandboxes', { headers: { 'content-type': 'application/json' } });
    assert.equal(typed.status, 201);
  });

  it('may send an empty object where no body is taken', async () => {
    const path = '/v1/sandboxes/sbx_1/code/contexts/cctx_1/interrupt';
    assert.equal((await service.call('POST', path, { body: {} })).status, 200);
    assert.equal((await service.call('DELETE', '/v1/sandboxes/sbx_1', { body: {} })).status, 200);
  });

  it('may hold a NUL in its code', async () => {
    const answer = await service.call(...runs('{"code":"a\\u0000","language":"python"}'));
    assert.equal(answer.body.run.stdout, 'a\0');
  });

  it('may spell its content type in any case and name UTF-8', async () => {
    const headers = { 'content-type': 'Application/JSON; Charset="UTF-8"' };
    assert.equal((await service.call('POST', '/v1/sandboxes', { body: '{}', headers })).status, 201);
  });

  it('has its query read as the contract types it', async () => {
    const waited = await service.call('GET', '/v1/sandboxes/sbx_1?waitFor=ready&waitMs=5');
    assert.deepEqual(waited.body.sandbox.query, { waitFor: 'ready', waitMs: 5 });
    const listed = await service.call('GET', '/v1/sandboxes?metadata.a%2Eb=1%202&metadata.n=7');
    assert.deepEqual(listed.body.data[0].query, { 'metadata.a.b': '1 2', 'metadata.n': '7' });
  });

  it('keeps a sane request id and gets a new one for any other', async () => {
    const id = async (sent: string) =>
      (await service.call('GET', '/v1/sandboxes', { headers: { 'x-request-id': sent } })).headers.get('x-request-id');
    assert.equal(await id('my-id 1'), 'my-id 1');
    assert.match((await id('x'.repeat(129))) ?? '', /^req_/);
    assert.match((await id('caf\u00e9')) ?? '', /^req_/);
  });

  it('answers HEAD like GET without the body', async () => {
    const answer = await service.call('HEAD', '/v1/sandboxes/sbx_1');
    assert.deepEqual([answer.status, answer.text], [200, '']);
  });
});

describe('a path with other methods', () => {
  for (const method of ['OPTIONS', 'PUT', 'PATCH', 'PROPFIND']) {
    it(`answers ${method} with those it has`, async () => {
      const answer = await service.call(method, '/v1/sandboxes/sbx_1', { key: null });
      assertError(answer, 'method_not_allowed', /GET, HEAD, DELETE/);
      assert.equal(answer.headers.get('allow'), 'GET, HEAD, DELETE');
    });
  }
});

describe('a key', () => {
  for (const header of [undefined, '', 'Bearer', 'Bearer x', 'Basic abc', `Bearer clk_${'a'.repeat(46)}`]) {
    it(`${header === undefined ? 'that is missing' : JSON.stringify(header)} is unauthorized`, async () => {
      const headers: Record<string, string> = header === undefined ? {} : { authorization: header };
      const answer = await service.call('GET', '/v1/sandboxes', { key: null, headers });
      assertError(answer, 'unauthorized', /key|Bearer/);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    });
  }

  it('is asked for before anything of the request is looked at', async () => {
    assertError(await service.call('POST', '/v1/sandboxes', { key: null, body: '{' }), 'unauthorized', /./);
  });

  it('needs the scope, before anything of the request is looked at', async () => {
    const key = await service.key(['sandbox:read']);
    const answer = await service.call('POST', '/v1/sandboxes', { key, body: '{' });
    assertError(answer, 'forbidden', /sandbox:create/);
    assert.equal(answer.body.error.details.requiredScope, 'sandbox:create');
  });

  it('needs artifact:create to promote', async () => {
    const key = await service.key(['code:run']);
    const [method, path, options] = runs(python({ artifactPolicy: 'promote' }));
    const answer = await service.call(method, path, { ...options, key });
    assert.equal(answer.body.error.details.requiredScope, 'artifact:create');
    const [, , plain] = runs(python());
    assert.equal((await service.call(method, path, { ...plain, key })).status, 200);
  });
});

describe('a deprecated alias', () => {
  const headersOf = ({ headers }: Answer) => ['deprecation', 'sunset', 'link'].map((name) => headers.get(name));
  const expected = [
    '@1783641600',
    'Sat, 10 Jul 2027 00:00:00 GMT',
    '</v1/sandboxes/sbx_1/ttl>; rel="canonical", </v1/sandboxes/sbx_1/ttl>; rel="successor-version"',
  ];

  it('says so and names its successor, on success and on errors of every kind', async () => {
    const path = '/v1/sandboxes/sbx_1/extend';
    const answers = [
      await service.call('POST', path, { body: { ttlMs: 1 }, idempotencyKey: 'a' }),
      await service.call('POST', path, { body: {}, idempotencyKey: 'a' }),
      await service.call('POST', path, { body: '{' }),
      await service.call('POST', path, { key: null }),
      await service.call('POST', path, { key: await service.key(['code:run']) }),
    ];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 400, 400, 401, 403],
    );
    for (const answer of answers) assert.deepEqual(headersOf(answer), expected);
  });

  it('encodes the id in the link', async () => {
    const answer = await service.call('POST', '/v1/sandboxes/a%22%3E%0d%0ab/extend', { key: null });
    assert.match(answer.headers.get('link') ?? '', /^<\/v1\/sandboxes\/a%22%3E%0D%0Ab\/ttl>; rel="canonical", /);
  });

  it('is alone in saying so', async () => {
    assert.deepEqual(headersOf(await service.call('GET', '/v1/sandboxes')), [null, null, null]);
  });
});

describe('an idempotent request', () => {
  const create = (idempotencyKey: string, body: unknown = {}) =>
    service.call('POST', '/v1/sandboxes', { body, idempotencyKey });

  it('is executed once, however many come at once, and replayed with its status and body', async () => {
    const before = made;
    const answers = await Promise.all(Array.from({ length: 30 }, () => create('many')));
    assert.equal(made, before + 1);
    const first = answers.find(({ status, headers }) => status === 201 && !headers.has('idempotency-replayed'));
    for (const answer of [...answers, await create('many')]) {
      if (answer.status === 409) assert.ok(answer.headers.get('retry-after'));
      else assert.deepEqual([answer.status, answer.text], [201, first?.text]);
    }
    assert.equal((await create('many')).headers.get('idempotency-replayed'), 'true');
  });

  it('is the same however its path is escaped', async () => {
    const body = python();
    const path = (id: string) => `/v1/sandboxes/${id}/code/runs`;
    await service.call('POST', path('sbx_1'), { body, idempotencyKey: 'path' });
    const again = await service.call('POST', path('sbx%5f1'), { body, idempotencyKey: 'path' });
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    const other = await service.call('POST', path('sbx_2'), { body, idempotencyKey: 'path' });
    assert.equal(other.headers.get('idempotency-replayed'), null);
  });

  it('with another body is refused', async () => {
    await create('body', { ttlMs: 1 });
    assertError(await create('body', { ttlMs: 2 }), 'idempotency_key_reused', /new key/);
  });

  it('without a body equals one with an empty object', async () => {
    const first = await service.call('POST', '/v1/sandboxes', { idempotencyKey: 'empty' });
    assert.equal((await create('empty', {})).text, first.text);
  });

  it('that was invalid or rejected may be sent again with another body', async () => {
    assertError(await create('again', { ttlMs: 0 }), 'invalid_request', /ttlMs/);
    failure = new AppError('quota_exceeded', 'full', { details: { quota: 'sandboxes' } });
    assertError(await create('again', { ttlMs: 1 }), 'quota_exceeded', /full/);
    failure = undefined;
    assert.equal((await create('again', { ttlMs: 2 })).status, 201);
  });

  it('that failed runs again with the same body only', async () => {
    failure = new Error('secret detail');
    const failed = await create('failed', { ttlMs: 1 });
    assertError(failed, 'internal', /request id/);
    assert.doesNotMatch(failed.text, /secret detail/);
    failure = undefined;
    assertError(await create('failed', { ttlMs: 2 }), 'idempotency_key_reused', /./);
    const again = await create('failed', { ttlMs: 1 });
    assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [201, null]);
  });
});

describe('bytes that are no proper request', () => {
  const answered = async (bytes: string, halfClose = false) => {
    const text = await service.raw(bytes, { halfClose });
    const [head = '', body = ''] = text.split('\r\n\r\n');
    assert.match(head, /^HTTP\/1\.1 4\d\d /);
    assert.match(head, /content-type: application\/json/i);
    const { error } = JSON.parse(body);
    assert.match(head, new RegExp(`x-request-id: ${error.requestId}`, 'i'));
    return error;
  };

  it('that are no HTTP are refused in JSON', async () => {
    assert.match((await answered('hello\r\n\r\n')).message, /not valid HTTP/);
  });

  it('with headers over the limit are refused in JSON', async () => {
    const error = await answered(`GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(20_000)}\r\n\r\n`);
    assert.match(error.message, /16384 bytes/);
  });

  it('with a URL over the limit are refused in JSON', async () => {
    assert.match((await answered(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`)).message, /16384 bytes/);
  });

  it('without a Host are refused in JSON', async () => {
    assert.match((await answered('GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n')).message, /headers.host/);
  });

  it('with a body that ends too early are refused in JSON', async () => {
    const key = `authorization: Bearer ${await service.key()}`;
    const head = `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\n${key}\r\ncontent-type: application/json\r\ncontent-length: 9`;
    assert.equal((await answered(`${head}\r\n\r\n{}`, true)).code, 'invalid_request');
  });

  it('with an expectation that nobody can meet are refused in JSON', async () => {
    const error = await answered('GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n');
    assert.match(error.message, /headers.expect/);
  });

  it('that ask for a tunnel are refused in JSON', async () => {
    assert.equal((await answered('CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n')).code, 'method_not_allowed');
  });
});

describe('the pages for operators and readers', () => {
  it('need no key', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) {
      assert.equal((await service.call('GET', path, { key: null })).status, 200, path);
    }
    assert.equal((await service.call('GET', '/', { key: null })).headers.get('location'), '/docs');
  });

  it('show the API with nothing from elsewhere, under a content security policy', async () => {
    const page = await service.call('GET', '/docs', { key: null });
    assert.match(page.headers.get('content-security-policy') ?? '', /default-src 'self'/);
    assert.doesNotMatch(page.text, /(src|href)="https?:/);
    for (const [, asset] of page.text.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const { status } = await service.call('GET', String(asset), { key: null });
      assert.equal(status, 200, String(asset));
    }
    const style = await service.call('GET', '/docs/static/theme/cloche.css', { key: null });
    assert.match(style.text, /\.topbar \{ display: none/);
    assert.match(page.text, /cloche\.css/);
  });

  it('say when the service is not ready, without the reason', async () => {
    service.failCheck(new Error('secret socket'));
    const answer = await service.call('GET', '/readyz', { key: null });
    service.failCheck(undefined);
    assert.equal(answer.status, 503);
    assert.doesNotMatch(answer.text, /secret/);
  });

  it('count requests by operation and status', async () => {
    await service.call('GET', '/v1/sandboxes');
    const { text } = await service.call('GET', '/metrics', { key: null });
    assert.match(text, /cloche_http_request_duration_seconds_count\{operation="listSandboxes",status="200"\} \d/);
    assert.match(text, /cloche_idempotency_total\{outcome="replayed"\} \d/);
  });
});

describe('the log', () => {
  it('has one line for a request, with ids and outcome, and nothing that a client wrote but the path', async () => {
    const requestId = randomUUID();
    const secret = 'print("secret")';
    await service.call('POST', '/v1/sandboxes/sbx_9/code/runs', {
      body: python({ code: secret }),
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
});
