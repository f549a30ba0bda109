import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { Api, type RequestOptions } from '../support/api.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

/**
 * Request and expected error. `SBX` stands for the sandbox's id. The last fields are the status, the code, and the text
 * that the message or the issues must contain.
 */
type Case = [
  title: string,
  method: string,
  path: string,
  options: RequestOptions,
  status: number,
  code: string,
  names: RegExp,
];

const create = (body: unknown): [string, string, RequestOptions] => ['POST', '/v1/sandboxes', { body }];
const run = (body: unknown): [string, string, RequestOptions] => [
  'POST',
  '/v1/sandboxes/SBX/code/runs',
  { body, key: 'auto' },
];
const context = (body: unknown): [string, string, RequestOptions] => [
  'POST',
  '/v1/sandboxes/SBX/code/contexts',
  { body, key: 'auto' },
];
const python = (rest: object) => ({ code: '1', language: 'python', ...rest });
const manyKeys = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, '']));
const heavy = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`k${n}`, 'x'.repeat(500)]));

const cases: Case[] = [
  ['malformed JSON', 'POST', '/v1/sandboxes', { body: '{"ttlMs":' }, 400, 'invalid_request', /JSON/],
  ['a body that is no object', ...create([]), 400, 'invalid_request', /body/],
  ['a body of null', ...create('null'), 400, 'invalid_request', /body/],
  [
    'another content type',
    'POST',
    '/v1/sandboxes',
    { body: '{}', headers: { 'content-type': 'text/plain' } },
    415,
    'unsupported_media_type',
    /application\/json/,
  ],
  ['an unknown field', ...create({ image: 'x' }), 400, 'invalid_request', /image/],
  ['a ttlMs of zero', ...create({ ttlMs: 0 }), 400, 'invalid_request', /ttlMs/],
  ['a negative ttlMs', ...create({ ttlMs: -1 }), 400, 'invalid_request', /ttlMs/],
  ['a fractional ttlMs', ...create({ ttlMs: 1.5 }), 400, 'invalid_request', /ttlMs/],
  ['a ttlMs that is text', ...create({ ttlMs: '60000' }), 400, 'invalid_request', /ttlMs/],
  ['a ttlMs over an hour', ...create({ ttlMs: 3_600_001 }), 422, 'sandbox_ttl_exceeded', /ttlMs/],
  ['an unknown template', ...create({ template: 'cobol' }), 404, 'not_found', /cobol/],
  ['an unknown template version', ...create({ templateVersionId: 'tplv_none' }), 404, 'not_found', /tplv_none/],
  ['an unknown project', ...create({ projectId: 'prj_none' }), 404, 'not_found', /prj_none/],
  ['17 labels', ...create({ metadata: manyKeys }), 400, 'invalid_request', /metadata/],
  [
    'a label key of 65 characters',
    ...create({ metadata: { ['k'.repeat(65)]: '' } }),
    400,
    'invalid_request',
    /metadata/,
  ],
  [
    'a label value of 513 characters',
    ...create({ metadata: { k: 'v'.repeat(513) } }),
    400,
    'invalid_request',
    /metadata/,
  ],
  ['labels of more than 4096 bytes', ...create({ metadata: heavy }), 400, 'invalid_request', /4096/],
  ['a label that is a number', ...create({ metadata: { k: 1 } }), 400, 'invalid_request', /metadata.k/],
  [
    'an unknown network mode',
    ...create({ networkPolicy: { mode: 'open' } }),
    400,
    'invalid_request',
    /networkPolicy.mode/,
  ],
  [
    'hosts with a mode that takes none',
    ...create({ networkPolicy: { mode: 'deny-all', hosts: ['a.com'] } }),
    400,
    'invalid_request',
    /networkPolicy.hosts/,
  ],
  [
    'an allowlist without hosts',
    ...create({ networkPolicy: { mode: 'allowlist' } }),
    400,
    'invalid_request',
    /networkPolicy.hosts/,
  ],
  [
    'a URL for a host',
    ...create({ networkPolicy: { mode: 'allowlist', hosts: ['a.com', 'https://b.com'] } }),
    400,
    'invalid_request',
    /hosts.1.*URL/,
  ],
  [
    '65 hosts',
    ...create({ networkPolicy: { mode: 'denylist', hosts: Array.from({ length: 65 }, (_, n) => `h${n}.com`) } }),
    400,
    'invalid_request',
    /hosts/,
  ],
  ['an environment name with a space', ...create({ env: { 'A B': '' } }), 400, 'invalid_request', /env/],
  ['an environment value with a NUL', ...create({ env: { A: 'a\u0000' } }), 400, 'invalid_request', /env/],
  [
    'resources over the maximum',
    ...create({ resources: { memoryMb: 100_000_000 } }),
    400,
    'invalid_request',
    /memoryMb/,
  ],
  ['empty code', ...run(python({ code: '' })), 400, 'invalid_request', /code/],
  ['code of 262145 bytes', ...run(python({ code: '#'.repeat(262_145) })), 400, 'invalid_request', /code/],
  [
    'code of few characters but too many bytes',
    ...run(python({ code: `#${'é'.repeat(131_073)}` })),
    400,
    'invalid_request',
    /code/,
  ],
  ['a body over its limit', ...run(python({ code: '#'.repeat(LIMITS.bodyBytes) })), 413, 'payload_too_large', /body/],
  ['no language', ...run({ code: '1' }), 400, 'invalid_request', /language/],
  [
    'an unknown language',
    ...run({ code: '1', language: 'cobol' }),
    400,
    'invalid_request',
    /python, javascript.*typescript|language/,
  ],
  ['a timeout over its maximum', ...run(python({ timeoutMs: 600_001 })), 400, 'invalid_request', /timeoutMs/],
  ['a contextId without its prefix', ...run(python({ contextId: 'abc' })), 400, 'invalid_request', /contextId/],
  ['an unknown context', ...run(python({ contextId: 'cctx_none' })), 404, 'not_found', /cctx_none/],
  [
    'another cwd for a default context',
    ...run(python({ cwd: '/workspace/sub' })),
    400,
    'invalid_request',
    /cwd.*context/,
  ],
  ['an unknown artifact policy', ...run(python({ artifactPolicy: 'all' })), 400, 'invalid_request', /artifactPolicy/],
  [
    'a cwd that does not exist',
    ...context({ language: 'python', cwd: '/workspace/none' }),
    400,
    'invalid_request',
    /cwd/,
  ],
  [
    'a cwd out of the workspace',
    ...context({ language: 'python', cwd: '/workspace/../etc' }),
    400,
    'invalid_request',
    /cwd/,
  ],
  ['a relative cwd that climbs', ...context({ language: 'python', cwd: '../..' }), 400, 'invalid_request', /cwd/],
  [
    'a context timeout over its maximum',
    ...context({ language: 'python', timeoutMs: 600_001 }),
    400,
    'invalid_request',
    /timeoutMs/,
  ],
  [
    'a TTL without a value',
    'POST',
    '/v1/sandboxes/SBX/ttl',
    { body: {}, key: 'auto' },
    400,
    'invalid_request',
    /ttlMs/,
  ],
  ['an unknown sandbox', 'GET', '/v1/sandboxes/sbx_none', {}, 404, 'not_found', /sbx_none/],
  ['an id with an escape in it', 'GET', '/v1/sandboxes/..%2f..%2fetc', {}, 404, 'not_found', /./],
  ['an unknown status to list', 'GET', '/v1/sandboxes?status=alive', {}, 400, 'invalid_request', /status/],
  ['an unknown include', 'GET', '/v1/sandboxes?include=all', {}, 400, 'invalid_request', /include/],
  ['an unknown query parameter', 'GET', '/v1/sandboxes?size=1', {}, 400, 'invalid_request', /size/],
  [
    'a wait that is too long',
    'GET',
    '/v1/sandboxes/SBX?waitFor=ready&waitMs=60001',
    {},
    400,
    'invalid_request',
    /waitMs/,
  ],
  ['an unknown path', 'GET', '/v1/cellars', {}, 404, 'not_found', /cellars/],
  ['a method that the path has not', 'PUT', '/v1/sandboxes', {}, 405, 'method_not_allowed', /GET, POST|POST, GET/],
];

describe('a malformed request', () => {
  for (const [title, method, path, options, status, code, names] of cases) {
    it(`${title}: ${status} ${code}`, async () => {
      const answer = await service.api.request(method, path.replace('SBX', sandboxId), options);
      assert.deepEqual([answer.status, answer.body.error?.code], [status, code], JSON.stringify(answer.body));
      assert.match(`${answer.body.error.message} ${JSON.stringify(answer.body.error.details ?? '')}`, names);
      assert.equal(answer.headers.get('x-request-id'), answer.body.error.requestId);
      assert.doesNotMatch(JSON.stringify(answer.body), /\/root|\/var\/|node_modules|SQLITE|\.ts:|hostd|\.sock/);
    });
  }

  it('a malformed request creates nothing', async () => {
    const { data } = (await service.api.get('/v1/sandboxes?include=historical')).body;
    assert.deepEqual(
      data.map(({ id }: { id: string }) => id),
      [sandboxId],
    );
  });
});

describe('a key', () => {
  const status = async (authorization: string | undefined) => {
    const answer = await new Api(service.url, undefined).request('GET', '/v1/sandboxes', {
      headers: authorization === undefined ? {} : { authorization },
    });
    return [answer.status, answer.body.error?.code, answer.headers.get('www-authenticate')?.split(' ')[0]];
  };

  for (const wrong of [undefined, '', 'Bearer', 'Bearer x', 'Basic abc', `Bearer clk_${'a'.repeat(46)}`]) {
    it(`${wrong === undefined ? 'that is missing' : JSON.stringify(wrong)} is unauthorized`, async () => {
      assert.deepEqual(await status(wrong), [401, 'unauthorized', 'Bearer']);
    });
  }

  it('without the scope is forbidden, and the answer names the scope', async () => {
    const reader = new Api(service.url, await service.createKey({ scopes: ['sandbox:read'] }));
    assert.equal((await reader.get('/v1/sandboxes')).status, 200);
    const denied = await reader.post('/v1/sandboxes', {});
    assert.deepEqual(
      [denied.status, denied.body.error.code, denied.body.error.details.requiredScope],
      [403, 'forbidden', 'sandbox:create'],
    );
  });

  it('a key needs artifact:create to promote', async () => {
    const runner = new Api(service.url, await service.createKey({ scopes: ['code:run'] }));
    const denied = await runner.post(`/v1/sandboxes/${sandboxId}/code/runs`, python({ artifactPolicy: 'promote' }));
    assert.deepEqual([denied.status, denied.body.error.details?.requiredScope], [403, 'artifact:create']);
  });

  it('a key of another organization sees nothing', async () => {
    const stranger = new Api(
      service.url,
      await service.createKey({ org: await service.createOrg('strangers'), scopes: ['*'] }),
    );
    assert.deepEqual((await stranger.get('/v1/sandboxes')).body.data, []);
    for (const [method, path, body] of [
      ['GET', `/v1/sandboxes/${sandboxId}`, undefined],
      ['DELETE', `/v1/sandboxes/${sandboxId}`, undefined],
      ['POST', `/v1/sandboxes/${sandboxId}/code/runs`, python({})],
      ['POST', `/v1/sandboxes/${sandboxId}/ttl`, { ttlMs: 100_000 }],
    ] as const) {
      const answer = await stranger.request(method, path, { body, key: 'auto' });
      assert.deepEqual([answer.status, answer.body.error.code], [404, 'not_found'], path);
    }
  });
});
