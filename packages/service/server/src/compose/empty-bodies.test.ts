/** Sends `/v1` what clients send with requests that need no body: content types, and objects without fields. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

let tenants: Tenants;
let sandboxId: string;
let contextId: string;
before(async () => {
  tenants = await openTenants();
  sandboxId = await tenants.createSandbox(tenants.keys.whole);
  contextId = await createContext();
});
after(() => tenants?.close());

async function createContext(): Promise<string> {
  const { body } = await send('POST', `/v1/sandboxes/${sandboxId}/code/contexts`, 'application/json', {
    body: '{"language":"python"}',
  });
  return body.context.id;
}

/** Sends a request as programs do that name the type of a body that they do not send. */
async function send(method: string, path: string, type: string | undefined, { body = '' } = {}) {
  const headers = {
    authorization: `Bearer ${tenants.keys.whole}`,
    'idempotency-key': randomUUID(),
    'content-length': Buffer.byteLength(body),
    ...(type && { 'content-type': type }),
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request(tenants.server.url + path, { method, headers, agent: false }, resolve)
    .on('error', reject)
    .end(body);
  const response = await promise;
  const text = (await response.setEncoding('utf8').toArray()).join('');
  return { status: response.statusCode, body: JSON.parse(text) };
}

const TYPES = [
  undefined,
  'application/json',
  'application/json; charset=utf-8',
  // Of aiohttp and axios.
  'application/octet-stream',
  'application/x-www-form-urlencoded',
  'text/plain;charset=UTF-8',
  'multipart/form-data; boundary=x',
];

describe('a request of /v1 that needs no body', () => {
  for (const type of TYPES) {
    it(`a request of /v1 that needs no body may name the content type ${type ?? 'not at all'}`, async () => {
      const context = `/v1/sandboxes/${sandboxId}/code/contexts/${contextId}`;
      for (const act of ['interrupt', 'restart'])
        assert.equal((await send('POST', `${context}/${act}`, type)).status, 200, act);
      const other = await createContext();
      const ended = await send('DELETE', `/v1/sandboxes/${sandboxId}/code/contexts/${other}`, type);
      assert.equal(ended.status, 200);
      assert.equal((await send('GET', context, type)).status, 200);
      const id = await tenants.createSandbox(tenants.keys.whole);
      assert.equal((await send('DELETE', `/v1/sandboxes/${id}`, type)).status, 200);
    });
  }

  it('a request of /v1 that needs no body may have an object without fields, and nothing else', async () => {
    const path = `/v1/sandboxes/${sandboxId}/code/contexts/${contextId}/interrupt`;
    assert.equal((await send('POST', path, 'application/json', { body: '{}' })).status, 200);
    assert.equal((await send('POST', path, 'application/json', { body: '{"a":1}' })).status, 400);
    assert.equal((await send('POST', path, 'text/plain', { body: '{}' })).status, 415);
  });

  it('a request of /v1 that needs no body is not one that needs a body: this is refused without one, whatever its type', async () => {
    for (const type of TYPES)
      assert.equal((await send('POST', `/v1/sandboxes/${sandboxId}/code/contexts`, type)).status, 400, String(type));
  });
});
