import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { MAX_JSON_DEPTH } from '@cloche/node-support';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { answerFailures, gatewayApp, readJsonBodies } from './gateway-app.ts';
import { translateError } from './translate-error.ts';

const BODY_BYTES = 1024;
const log = pino({ level: 'silent' });
const failureOf = (error: unknown) => translateError(error, { log, client: 'a client' });
const answer = (error: unknown) => {
  const { status, headers, message } = failureOf(error);
  return { status, headers, body: { message } };
};

let app: FastifyInstance;
let url: string;
before(async () => {
  app = gatewayApp({ log, bodyBytes: BODY_BYTES, unknownStatus: 501, answer, readsRest: true });
  readJsonBodies(app, { type: 'application/json', mostValues: 3 });
  const text = { type: 'object', properties: { text: { type: 'string' } } };
  app.post('/echo', async ({ body }) => ({ body }));
  app.post('/text', { schema: { body: text } }, async ({ body }) => ({ body }));
  app.get('/found', async () => ({ found: true }));
  await app.register(
    async (scope) => {
      answerFailures(scope, {
        answer: () => ({ status: 418, headers: { 'x-own': '1' }, body: undefined }),
        readsRest: false,
      });
      scope.post('/echo', async ({ body }) => ({ body }));
    },
    { prefix: '/own' },
  );
  await app.register(
    async (scope) => {
      const isRead = ({ url: path }: { url: string }) => path !== '/any/unread';
      readJsonBodies(scope, { type: '*', mostValues: 3, isRead });
      for (const path of ['/read', '/unread']) scope.post(path, async ({ body }) => ({ body }));
    },
    { prefix: '/any' },
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
});
after(() => app.close());

function post(path: string, body: string | Uint8Array<ArrayBuffer>, type = 'application/json'): Promise<Response> {
  return fetch(url + path, { method: 'POST', headers: { 'content-type': type }, body });
}

const bytes = (...all: number[]) => new Uint8Array(all);
const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

describe('the app of a gateway', () => {
  for (const [what, body, status, read] of [
    ['JSON', '{"a":1}', 200, { a: 1 }],
    ['an empty body', '', 200, null],
    ['as many values as allowed', '[1,2,3]', 200, [1, 2, 3]],
    ['a field that could change prototypes', '{"__proto__":{"a":1}}', 200, JSON.parse('{"__proto__":{"a":1}}')],
    ['more values', '[1,2,3,4]', 400],
    ['too many levels', deep(MAX_JSON_DEPTH + 1), 400],
    ['half of a value', '{"a"', 400],
    ['bytes that are not UTF-8', bytes(0x22, 0xff, 0x22), 400],
    ['half of a character', bytes(0x22, 0xc3, 0x22), 400],
    ['a byte order mark', bytes(0xef, 0xbb, 0xbf, 0x31), 400],
    ['text in UTF-16', bytes(0x22, 0, 0x61, 0, 0x22, 0), 400],
    ['a body of the largest size', '1'.padEnd(BODY_BYTES), 200, 1],
    ['a larger body', '1'.padEnd(BODY_BYTES + 1), 413],
  ] as const) {
    it(`the app of a gateway answers ${what} with ${status}`, async () => {
      const response = await post('/echo', body);
      assert.equal(response.status, status);
      if (status === 200) assert.deepEqual(await response.json(), { body: read });
      else assert.match(((await response.json()) as { message: string }).message, /\w/);
    });
  }

  it('the app of a gateway keeps the connection of a refused body, so that a client that still writes gets the answer', async () => {
    const [kept, closed] = [await post('/echo', '1'.padEnd(2 ** 20)), await post('/own/echo', '1'.padEnd(2 ** 20))];
    assert.deepEqual([kept.status, kept.headers.get('connection')], [413, null]);
    assert.deepEqual([closed.status, closed.headers.get('connection')], [418, 'close']);
  });

  it('the app of a gateway answers failures of a part in its own way', async () => {
    const response = await post('/own/echo', '{');
    assert.deepEqual([response.status, response.headers.get('x-own'), await response.text()], [418, '1', '']);
  });

  it('the app of a gateway refuses a number where a text belongs', async () => {
    assert.equal((await post('/text', '{"text":"1"}')).status, 200);
    assert.equal((await post('/text', '{"text":1}')).status, 400);
  });

  it('the app of a gateway says what it does not answer, HEAD of a known path too', async () => {
    const response = await fetch(`${url}/unknown?key=secret`);
    assert.deepEqual(
      [response.status, await response.json()],
      [501, { message: 'Cloche does not answer GET /unknown.' }],
    );
    assert.equal((await fetch(`${url}/found`)).status, 200);
    assert.equal((await fetch(`${url}/found`, { method: 'HEAD' })).status, 501);
  });

  it('the app of a gateway reads JSON of any type where it is told so, and passes over bodies that no handler reads', async () => {
    const sent = ['[1]', 'text/plain'] as const;
    assert.deepEqual(await (await post('/any/read', ...sent)).json(), { body: [1] });
    assert.equal((await post('/any/read', '{', 'text/plain')).status, 400);
    assert.deepEqual(await (await post('/any/unread', '{', 'text/plain')).json(), { body: null });
  });
});
