/** MCP clients with sessions and without, at a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { BOOTSTRAP_KEY } from '../../../service/server/testing/bootstrap-key.ts';
import { NEEDS_POSTGRES } from '../../../service/server/testing/servers.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';
import { WholeServers } from '../../../service/server/testing/whole-servers.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_MCP: 'on' });
});
after(() => tenants?.close());

interface Connection extends AsyncDisposable {
  readonly client: Client;
  readonly transport: StreamableHTTPClientTransport;
}

const WITHOUT_SESSIONS = { versionNegotiation: { mode: 'auto' as const } };

async function connect(key = tenants.keys.whole, options = {}): Promise<Connection> {
  const client = new Client({ name: 'test', version: '1' }, options);
  const headers = { authorization: `Bearer ${key}` };
  const transport = new StreamableHTTPClientTransport(new URL(`${tenants.server.url}/mcp`), {
    requestInit: { headers },
  });
  await client.connect(transport);
  return {
    client,
    transport,
    async [Symbol.asyncDispose]() {
      if (transport.sessionId !== undefined) await transport.terminateSession().catch(() => undefined);
      await client.close();
    },
  };
}

// biome-ignore lint/suspicious/noExplicitAny: structured content is read field by field
type Answer = { readonly text: string; readonly data: any };

async function call({ client }: Pick<Connection, 'client'>, name: string, args: object = {}): Promise<Answer> {
  const answer = await client.callTool({ name, arguments: args as Record<string, unknown> });
  const text = (answer.content as { text?: string }[]).map((block) => block.text ?? '').join('\n');
  if (answer.isError) throw new Error(text);
  return { text, data: answer.structuredContent };
}

async function statusOf(sandboxId: string): Promise<string> {
  return (await tenants.call(tenants.keys.whole, 'GET', `/v1/sandboxes/${sandboxId}`)).body.sandbox.status;
}

async function send(method: string, sessionId: string | undefined, key = tenants.keys.whole): Promise<number> {
  const response = await fetch(`${tenants.server.url}/mcp`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    },
    ...(method === 'POST' && { body: '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}' }),
  });
  await response.text();
  return response.status;
}

describe('a client with sessions', () => {
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const REFUSED: Readonly<Record<string, [message: object, fields?: Record<string, string>]>> = {
    'without parameters': [{ params: undefined }],
    'without the name of the client': [{ params: { ...params, clientInfo: {} } }],
    'with a version that is no text': [{ params: { ...params, protocolVersion: 1 } }],
    'that takes no events': [{}, { accept: 'application/json' }],
    'of another type': [{}, { 'content-type': 'text/plain' }],
    'that is a notification': [{ id: undefined }],
    'that is no JSON-RPC': [{ jsonrpc: '1.0' }],
  };
  for (const [what, [message, fields]] of Object.entries(REFUSED))
    it(`a client with sessions has no session after an initialize ${what}, and one after a good one`, async () => {
      const initialize = async (changes: object, more = {}) => {
        const response = await fetch(`${tenants.server.url}/mcp`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${tenants.keys.whole}`,
            accept: 'application/json, text/event-stream',
            'content-type': 'application/json',
            ...more,
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params, ...changes }),
        });
        return { text: await response.text(), sessionId: response.headers.get('mcp-session-id') };
      };
      const refused = await initialize(message, fields);
      assert.deepEqual([/"result"/.test(refused.text), refused.sessionId], [false, null], refused.text);
      const { sessionId } = await initialize({});
      assert.ok(sessionId);
      assert.equal(await send('DELETE', sessionId), 204);
    });

  it('a client with sessions has one sandbox for all calls that name none, which ends with the session', async () => {
    await using connection = await connect();
    const first = await call(connection, 'run_code', { code: 'value 1' });
    const { sandboxId } = first.data;
    assert.match(first.text, new RegExp(`${sandboxId} is the sandbox of this session`));
    const second = await call(connection, 'command_run', { command: 'echo hi' });
    assert.equal(second.data.sandboxId, sandboxId);
    assert.doesNotMatch(second.text, /of this session/);
    await call(connection, 'file_write', { path: 'a.txt', text: 'hello' });
    assert.equal((await call(connection, 'file_read', { path: 'a.txt' })).data.text, 'hello');
    assert.equal((await call(connection, 'sandbox_get')).data.sandbox.id, sandboxId);
    const { command } = (await call(connection, 'command_start', { command: 'sleep 100' })).data;
    await call(connection, 'command_logs', { commandId: command.id });
    assert.ok((await call(connection, 'preview_open', { port: 8000 })).data.previewId);
    assert.ok((await call(connection, 'artifact_export', { path: 'a.txt' })).data.artifact.id);

    await using other = await connect();
    assert.notEqual((await call(other, 'run_code', { code: 'value 1' })).data.sandboxId, sandboxId);

    const { sessionId } = connection.transport;
    await connection.transport.terminateSession();
    assert.equal(await statusOf(sandboxId), 'destroyed');
    assert.equal(await send('POST', sessionId), 404);
    assert.equal(await send('DELETE', sessionId), 404);
  });

  it('a client with sessions gets one sandbox from calls at the same time', async () => {
    await using connection = await connect();
    const calls = Array.from({ length: 8 }, () => call(connection, 'run_code', { code: 'value 1' }));
    const ids = new Set((await Promise.all(calls)).map(({ data }) => data.sandboxId));
    assert.equal(ids.size, 1);
  });

  it('a client with sessions is told that its sandbox has ended, and gets another one', async () => {
    await using connection = await connect();
    const { sandboxId } = (await call(connection, 'run_code', { code: 'value 1' })).data;
    await call(connection, 'sandbox_kill', { sandboxId });
    const next = await call(connection, 'run_code', { code: 'value 1' });
    assert.notEqual(next.data.sandboxId, sandboxId);
    assert.match(next.text, /earlier sandbox of this session has ended, with its files and variables/);
    assert.equal((await call(connection, 'run_code', { code: 'value 1' })).data.sandboxId, next.data.sandboxId);
  });

  it('a client with sessions pauses its sandbox, which its next call wakes and its end destroys', async () => {
    await using connection = await connect();
    const { sandboxId } = (await call(connection, 'run_code', { code: 'value 1' })).data;
    const { sandbox } = (await call(connection, 'sandbox_pause')).data;
    assert.deepEqual([sandbox.id, sandbox.status, typeof sandbox.pausedAt], [sandboxId, 'idle', 'string']);
    const next = await call(connection, 'run_code', { code: 'value 1' });
    assert.equal(next.data.sandboxId, sandboxId);
    assert.doesNotMatch(next.text, /of this session/);
    assert.equal((await call(connection, 'sandbox_resume')).data.sandbox.id, sandboxId);
    await call(connection, 'sandbox_pause');
    await connection.transport.terminateSession();
    assert.equal(await statusOf(sandboxId), 'destroyed');
  });

  it('a client with sessions may name another sandbox in a call', async () => {
    await using connection = await connect();
    const { sandbox } = (await call(connection, 'sandbox_create')).data;
    const ran = await call(connection, 'run_code', { code: 'value 1', sandboxId: sandbox.id });
    assert.equal(ran.data.sandboxId, sandbox.id);
    await connection.transport.terminateSession();
    assert.notEqual(await statusOf(sandbox.id), 'destroyed');
  });

  it('a client with sessions loses its session and its sandbox with its key', async () => {
    const { keys } = tenants;
    const made = await tenants.call(keys.whole, 'POST', '/v1/api-keys', { body: { name: 'k', scopes: ['*'] } });
    const connection = await connect(made.body.secret ?? made.body.apiKey.secret);
    const { sandboxId } = (await call(connection, 'run_code', { code: 'value 1' })).data;
    await tenants.call(keys.whole, 'DELETE', `/v1/api-keys/${made.body.apiKey.id}`);
    await eventually(async () => (await statusOf(sandboxId)) === 'destroyed', { because: 'the session has ended' });
    await assert.rejects(call(connection, 'run_code', { code: 'value 1' }));
    await connection.client.close();
  });
});

describe('a session of several servers', { skip: NEEDS_POSTGRES }, () => {
  it('a session of several servers has one sandbox at each of them, and ends at all of them', async () => {
    await using servers = await WholeServers.open(2, { CLOCHE_MCP: 'on' });
    let sent = 0;
    // Each request goes to the other server than the one before.
    const elsewhere = (_input: unknown, init?: RequestInit) => fetch(`${servers.urlOf(sent++)}/mcp`, init);
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${BOOTSTRAP_KEY}` } };
    const url = new URL(`${servers.urlOf(0)}/mcp`);
    const transport = new StreamableHTTPClientTransport(url, { requestInit, fetch: elsewhere });
    await client.connect(transport);
    const calls = Array.from({ length: 6 }, () => call({ client }, 'run_code', { code: 'value 1' }));
    const ids = new Set((await Promise.all(calls)).map(({ data }) => data.sandboxId));
    assert.equal(ids.size, 1);
    const [sandboxId] = ids;
    const { sessionId = '' } = transport;
    await transport.terminateSession();
    assert.equal((await servers.call(1, 'GET', `/v1/sandboxes/${sandboxId}`)).body.sandbox.status, 'destroyed');
    for (const server of [0, 1]) {
      const headers = { ...requestInit.headers, 'mcp-session-id': sessionId };
      assert.equal((await fetch(`${servers.urlOf(server)}/mcp`, { method: 'DELETE', headers })).status, 404);
    }
    await client.close();
  });
});

describe('the id of a session', () => {
  it('the id of a session opens no session of another key, nor one that is guessed', async () => {
    await using connection = await connect();
    const { sessionId = '' } = connection.transport;
    assert.ok(Buffer.from(sessionId, 'base64url').length >= 32);
    assert.equal(await send('POST', sessionId), 200);
    assert.equal(await send('POST', undefined), 200);
    const own = tenants.keys.whole;
    const GUESSES: [string, string?][] = [
      [sessionId, tenants.keys.foreign],
      [sessionId, tenants.keys.bound],
      [sessionId.slice(0, -1), own],
      [`${sessionId}, ${sessionId}`, own],
      [sessionId.toLowerCase(), own],
      ['x', own],
      ['x'.repeat(5000), own],
      ["' or 1=1 --", own],
    ];
    for (const [id, key] of GUESSES)
      for (const method of ['POST', 'DELETE']) assert.equal(await send(method, id, key), 404, `${method} ${id}`);
    assert.equal(await send('POST', sessionId), 200);
  });
});

describe('a client without sessions', () => {
  it('a client without sessions is told in the result how to name the sandbox of the next call', async () => {
    await using connection = await connect(undefined, WITHOUT_SESSIONS);
    assert.equal(connection.transport.sessionId, undefined);
    for (const [name, args] of [
      ['run_code', { code: 'value 1' }],
      ['command_run', { command: 'echo hi' }],
      ['command_start', { command: 'sleep 100' }],
      ['file_write', { path: 'a.txt', text: 'hello' }],
    ] as const) {
      const { text, data } = await call(connection, name, args);
      const named = /Give ("sandboxId": "sbx_[0-9a-z]+") to the following calls/.exec(text)?.[1];
      assert.equal(named, `"sandboxId": "${data.sandboxId}"`, name);
      const again = await call(connection, name, { ...args, ...JSON.parse(`{${named}}`) });
      assert.equal(again.data.sandboxId, data.sandboxId);
      assert.doesNotMatch(again.text, /following calls/);
      await call(connection, 'sandbox_kill', { sandboxId: data.sandboxId });
    }
  });

  it('a client without sessions is told what is missing by tools that would find nothing in a new sandbox', async () => {
    await using connection = await connect(undefined, WITHOUT_SESSIONS);
    for (const [name, args] of [
      ['file_read', { path: 'a' }],
      ['file_list', { path: '.' }],
      ['file_move', { path: 'a', to: 'b' }],
      ['file_delete', { path: 'a' }],
      ['command_logs', { commandId: 'cmd_1' }],
      ['command_kill', { commandId: 'cmd_1' }],
      ['artifact_export', { path: 'a' }],
      ['preview_open', { port: 80 }],
      ['sandbox_get', {}],
      ['sandbox_extend', { ttlMs: 1000 }],
      ['sandbox_pause', {}],
      ['sandbox_resume', {}],
    ] as const)
      await assert.rejects(call(connection, name, args), /sandboxId is missing.*run_code/, name);
  });
});
