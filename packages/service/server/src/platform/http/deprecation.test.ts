import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { ApiAnswer } from '../../../testing/call-api.ts';
import { type EchoService, startEchoService } from '../../../testing/echo-service.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('a deprecated alias', () => {
  const headersOf = ({ headers }: ApiAnswer) => ['deprecation', 'sunset', 'link'].map((name) => headers.get(name));
  const expected = [
    '@1783641600',
    'Sat, 10 Jul 2027 00:00:00 GMT',
    '</v1/sandboxes/sbx_1/ttl>; rel="canonical", </v1/sandboxes/sbx_1/ttl>; rel="successor-version"',
  ];

  it('a deprecated alias says so and names its successor, on success and on errors of every kind', async () => {
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

  it('a deprecated alias encodes the id in the link', async () => {
    const answer = await service.call('POST', '/v1/sandboxes/a%22%3E%0d%0ab/extend', { key: null });
    assert.match(answer.headers.get('link') ?? '', /^<\/v1\/sandboxes\/a%22%3E%0D%0Ab\/ttl>; rel="canonical", /);
  });

  it('a deprecated alias is the only operation whose answers say so', async () => {
    assert.deepEqual(headersOf(await service.call('GET', '/v1/sandboxes')), [null, null, null]);
  });
});
