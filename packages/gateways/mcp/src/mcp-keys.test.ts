/** Sends MCP's endpoint keys that do not work: each request is refused with 401 before any of its body is parsed. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const message = (method: string, params = {}) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
const CLIENT = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
const BODIES: Readonly<Record<string, string>> = {
  initialize: message('initialize', CLIENT),
  'tools/list': message('tools/list'),
  'tools/call': message('tools/call', { name: 'sandbox_list', arguments: {} }),
  'prompts/list': message('prompts/list'),
  ping: message('ping'),
  'a notification': '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  'half a document': '{"jsonrpc"',
  nothing: '',
};

let tenants: Tenants;
const keys: Record<string, string | undefined> = {};
before(async () => {
  tenants = await openTenants({ CLOCHE_MCP: 'on' });
  const { keys: made } = tenants;
  const create = async (body: object) =>
    (await tenants.call(made.whole, 'POST', '/v1/api-keys', { body: { name: 'k', scopes: ['*'], ...body } })).body;
  const revoked = await create({});
  await tenants.call(made.whole, 'DELETE', `/v1/api-keys/${revoked.apiKey.id}`);
  Object.assign(keys, {
    'is missing': undefined,
    'is empty': 'Bearer ',
    'is no key': 'Bearer guessed',
    'is a key with another ending': `Bearer ${made.whole.slice(0, -1)}${made.whole.endsWith('a') ? 'b' : 'a'}`,
    'is revoked': `Bearer ${revoked.secret ?? revoked.apiKey.secret}`,
    'has another scheme': `Basic ${Buffer.from(`key:${made.whole}`).toString('base64')}`,
    'has no scheme': made.whole,
  });
});
after(() => tenants?.close());

async function send(method: string, authorization: string | undefined, body?: string): Promise<Response> {
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...(authorization !== undefined && { authorization }),
  };
  return fetch(`${tenants.server.url}/mcp`, { method, headers, ...(body !== undefined && { body }) });
}

describe('a request of an MCP client whose key', () => {
  const everything = Object.values(BODIES).map((body): [string, string | undefined] => ['POST', body]);
  const all: [string, string | undefined][] = [...everything, ['GET', undefined], ['DELETE', undefined], ['PUT', '{}']];
  /** Answers to guesses are delayed: three of them. */
  const few: [string, string | undefined][] = [
    ['POST', BODIES.initialize],
    ['POST', BODIES['tools/list']],
    ['GET', undefined],
  ];
  for (const [name, requests] of Object.entries({
    'is missing': all,
    'is empty': all,
    'is no key': all,
    'is a key with another ending': few,
    'is revoked': few,
    'has another scheme': all,
    'has no scheme': all,
  })) {
    it(`${name} is refused with 401, whatever it asks for`, async () => {
      for (const [method, body] of requests) {
        const response = await send(method, keys[name], body);
        const text = await response.text();
        assert.equal(response.status, 401, `${method} ${body}: ${text}`);
        assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer/);
        assert.deepEqual([JSON.parse(text).jsonrpc, JSON.parse(text).id], ['2.0', null]);
      }
    });
  }

  it('a request of an MCP client whose key works is answered', async () => {
    const response = await send('POST', `Bearer ${tenants.keys.whole}`, BODIES.initialize);
    assert.equal(response.status, 200);
    await response.text();
  });
});
