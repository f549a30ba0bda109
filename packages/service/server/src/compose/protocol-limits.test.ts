/**
 * Rights, quotas, rate limits, audit events and broken requests of each protocol beside `/v1`, on a whole server with a
 * fake runtime.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({
    CLOCHE_E2B: 'on',
    CLOCHE_JUPYTER: 'on',
    CLOCHE_MCP: 'on',
    CLOCHE_RUN_APIS: 'dify,piston,sandbox-fusion',
  });
});
after(() => tenants?.close());

interface Request {
  readonly path: string;
  readonly body: object;
}

interface Protocol {
  readonly headers: (key: string) => Record<string, string>;
  /** Creates a sandbox. */
  readonly creation: Request;
  /** Uses a sandbox that exists, where the protocol can name one. */
  readonly use?: (sandboxId: string) => Request;
}

const tool = (name: string, args: object): Request => ({
  path: '/mcp',
  body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
});

const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  E2B: {
    headers: (key) => ({ 'x-api-key': key }),
    creation: { path: '/e2b/v2/sandboxes', body: { templateID: 'base' } },
    use: (sandboxId) => ({ path: `/e2b/v2/sandboxes/${sandboxId}/connect`, body: { timeout: 60 } }),
  },
  Jupyter: {
    headers: (key) => ({ authorization: `token ${key}` }),
    creation: { path: '/jupyter/api/kernels', body: { name: 'python3' } },
    use: (sandboxId) => ({ path: '/jupyter/api/kernels', body: { name: `python3@${sandboxId}` } }),
  },
  MCP: {
    headers: (key) => ({ authorization: `Bearer ${key}`, accept: 'application/json, text/event-stream' }),
    creation: tool('sandbox_create', {}),
    use: (sandboxId) => tool('sandbox_get', { sandboxId }),
  },
  Piston: {
    headers: (key) => ({ 'x-api-key': key }),
    creation: {
      path: '/piston/api/v2/execute',
      body: { language: 'python', version: '*', files: [{ content: 'print(1)' }] },
    },
  },
  SandboxFusion: {
    headers: (key) => ({ 'x-api-key': key }),
    creation: { path: '/sandbox-fusion/run_code', body: { language: 'python', code: 'print(1)' } },
  },
  Dify: {
    headers: (key) => ({ 'x-api-key': key }),
    creation: { path: '/dify/v1/sandbox/run', body: { language: 'python3', code: 'print(1)' } },
  },
};

for (const [name, { headers, creation, use }] of Object.entries(PROTOCOLS)) {
  describe(`the protocol of ${name}`, () => {
    function request(key: string, { path, body }: Request): Promise<Response> {
      return fetch(tenants.server.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers(key) },
        body: JSON.stringify(body),
      });
    }

    /** Returns what the response has to say, in whatever form the protocol gives it. */
    const send = async (key: string, sent: Request): Promise<string> => (await request(key, sent)).text();

    /** Begins a request whose body has the length; the caller sends the body, or not. */
    function begin(key: string, bodyBytes: number): ClientRequest {
      const length = { 'content-type': 'application/json', 'content-length': bodyBytes };
      const begun = httpRequest(tenants.server.url + creation.path, {
        method: 'POST',
        headers: { ...length, ...headers(key) },
      });
      begun.on('error', () => undefined);
      return begun;
    }

    it(`the protocol of ${name} refuses a key that does not exist`, async () => {
      const { key } = await tenants.createOrganization();
      const refused = await request(`${key}x`, creation);
      if (refused.status !== 401) assert.match(await refused.text(), /API key/);
      assert.equal(await liveSandboxes(key), 0);
    });

    it(`the protocol of ${name} refuses a body above its limit before it has come, and goes on`, async () => {
      const { key } = await tenants.createOrganization();
      const begun = begin(key, TOO_LARGE_BYTES);
      begun.flushHeaders();
      const [response] = (await once(begun, 'response', { signal: AbortSignal.timeout(60_000) })) as [IncomingMessage];
      assertRefused(response.statusCode, await text(response), 413);
      begun.destroy();
      assert.notEqual((await request(key, creation)).status, 413);
    });

    it(`the protocol of ${name} does nothing for a body of which only a half comes`, async () => {
      const { key, keyId } = await tenants.createOrganization();
      const body = JSON.stringify(creation.body);
      const begun = begin(key, Buffer.byteLength(body));
      begun.write(body.slice(0, body.length / 2));
      await once(begun, 'socket');
      await tenants.call(key, 'GET', '/v1/sandboxes');
      begun.destroy();
      assert.equal(await liveSandboxes(key), 0);
      assert.deepEqual(await tenants.auditOf(key, keyId), []);
    });

    it(`the protocol of ${name} refuses a body that is half a document`, async () => {
      const { key } = await tenants.createOrganization();
      const body = JSON.stringify(creation.body);
      const response = await fetch(tenants.server.url + creation.path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers(key) },
        body: body.slice(0, body.length / 2),
      });
      assertRefused(response.status, await response.text(), 400);
      assert.equal(await liveSandboxes(key), 0);
    });

    it(`the protocol of ${name} refuses a key without the scope, and writes it to the audit log`, async () => {
      const { org, key } = await tenants.createOrganization();
      const { secret, id } = (await tenants.operator('/keys', { org, scopes: ['sandbox:read'] })).key;
      assert.match(await send(secret, creation), /lacks the scope \\*"sandbox:create/);
      await eventually(async () => (await tenants.auditOf(key, id)).includes('sandbox.created denied'), {
        because: 'the refusal is written to the audit log',
      });
    });

    it(`the protocol of ${name} holds to the quotas of the organization`, async () => {
      const { org, key } = await tenants.createOrganization();
      await tenants.operator(`/orgs/${org}/quotas`, { liveSandboxes: 0 }, 'PATCH');
      assert.match(await send(key, creation), /exceed its quota `liveSandboxes`/);
    });

    it(`the protocol of ${name} counts its requests to the limit of requests, and says when to try again`, async () => {
      const { org, key } = await tenants.createOrganization();
      await tenants.operator(`/orgs/${org}/quotas`, { requestsPerMinute: 1 }, 'PATCH');
      await send(key, creation);
      const refused = await request(key, creation);
      assert.match(await refused.text(), /quota `requestsPerMinute`.*Retry-After/);
      if (!refused.ok) assert.ok(Number(refused.headers.get('retry-after')) >= 1, String(refused.status));
      assert.equal((await tenants.call(key, 'GET', '/v1/sandboxes')).status, 429);
    });

    it(`the protocol of ${name} writes what it changes to the audit log, with the key`, async () => {
      const { key, keyId } = await tenants.createOrganization();
      await send(key, creation);
      assert.ok((await tenants.auditOf(key, keyId)).includes('sandbox.created allowed'));
    });

    if (use) {
      it(`the protocol of ${name} reaches no sandbox of another organization`, async () => {
        const { key } = await tenants.createOrganization();
        const sandboxId = await tenants.createSandbox(key);
        assert.doesNotMatch(await send(key, use(sandboxId)), /not_found/);
        assert.match(await send(tenants.keys.foreign, use(sandboxId)), /not_found: There is no sandbox/);
      });
    }
  });
}

/** Exceeds the limit of each protocol. */
const TOO_LARGE_BYTES = 2 ** 30;

/** Dify's protocol answers 200 and has the status in the body. */
function assertRefused(status: number | undefined, body: string, expected: number): void {
  if (!(status === 200 && body.startsWith(`{"code":-${expected},`))) assert.equal(status, expected, body);
}

async function liveSandboxes(key: string): Promise<number> {
  return (await tenants.call(key, 'GET', '/v1/sandboxes')).body.data.length;
}
