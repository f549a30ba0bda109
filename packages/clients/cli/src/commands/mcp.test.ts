import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  eventStream,
  frame,
  json,
  type Reply,
  type ScriptedServer,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const BIN = fileURLToPath(new URL('../../bin/cloche.mjs', import.meta.url));

let reply: (path: string) => Reply;
let server: ScriptedServer;
let client: Client;
before(async () => {
  server = await startScriptedServer(({ path }) => reply(path));
  ({ client } = await connected());
});
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});

/** Starts `cloche mcp` and connects to it. */
async function connected() {
  const connecting = new Client({ name: 'test', version: '1' });
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: '/nonexistent',
    XDG_CACHE_HOME: '/dev/null',
    CLOCHE_URL: server.url,
    CLOCHE_API_KEY: 'clk_test',
  };
  const args = [BIN, 'mcp'];
  await connecting.connect(new StdioClientTransport({ command: process.execPath, args, env, stderr: 'inherit' }));
  return { client: connecting, [Symbol.asyncDispose]: () => connecting.close() };
}

// biome-ignore lint/suspicious/noExplicitAny: structured content is read field by field
type Answer = { content: any[]; structuredContent?: any; isError?: boolean };

const call = async (name: string, args: object, options = {}): Promise<Answer> =>
  (await client.callTool({ name, arguments: args as Record<string, unknown> }, options)) as Answer;

const file = { path: '/workspace/a', type: 'file', sizeBytes: 1, modifiedAt: '2026-01-01T00:00:00.000Z' };
const artifact = {
  id: 'art_1',
  sandboxId: 'sbx_1',
  name: 'a.csv',
  contentType: 'text/csv',
  sizeBytes: 3,
  createdAt: '2026-01-01T00:00:00.000Z',
};

describe('cloche mcp', () => {
  it('cloche mcp has the tools that the service has, and sends each call to the service with one request', async () => {
    const names = (await client.listTools()).tools.map(({ name }) => name);
    for (const name of ['run_code', 'command_run', 'artifact_export', 'preview_open'])
      assert.ok(names.includes(name), name);
    const sandbox = sampleSandbox();
    const calls: readonly [string, object, Reply, string][] = [
      ['file_write', { path: 'a', text: 'x' }, json(201, { file }), 'PUT'],
      ['file_list', { path: '.' }, json(200, { data: [file], hasMore: false }), 'GET'],
      ['sandbox_kill', {}, json(200, { sandbox }), 'DELETE'],
      ['sandbox_extend', { ttlMs: 1000 }, json(200, { sandbox }), 'POST'],
      ['sandbox_pause', {}, json(200, { sandbox }), 'POST'],
      ['sandbox_resume', {}, json(200, { sandbox }), 'POST'],
      ['artifact_list', {}, json(200, { data: [artifact], hasMore: false }), 'GET'],
    ];
    for (const [name, args, answer] of calls) {
      const before = server.requests.length;
      reply = () => answer;
      const answered = await call(name, { sandboxId: 'sbx_1', ...args });
      assert.ok(!answered.isError, `${name}: ${answered.content[0].text}`);
      assert.equal(server.requests.length - before, 1, name);
      assert.equal(server.requests.at(-1)?.headers.authorization, 'Bearer clk_test');
    }
  });

  it('cloche mcp gives artifacts and previews as links', async () => {
    const url = 'http://127.0.0.1/download';
    reply = (path) => json(200, path.endsWith('/download-url') ? { download: { url } } : { artifact });
    const exported = await call('artifact_export', { sandboxId: 'sbx_1', path: 'a.csv' });
    assert.deepEqual(exported.content.at(-1), {
      type: 'resource_link',
      uri: url,
      name: 'a.csv',
      mimeType: 'text/csv',
      size: 3,
    });
    assert.equal(exported.structuredContent.artifact.id, 'art_1');
    const preview = { id: 'prv_1', url: 'http://prv-1.localhost', accessToken: 'secret', expiresAt: 'later' };
    reply = () => json(201, { preview });
    const opened = await call('preview_open', { sandboxId: 'sbx_1', port: 8000 });
    assert.equal(opened.structuredContent.url, 'http://prv-1.localhost/?cloche_token=secret');
    assert.equal(opened.content.at(-1).type, 'resource_link');
  });

  it('cloche mcp tells progress with the output while code runs, and cancels the run with the call', async () => {
    reply = () => eventStream([frame('stdout', 'first\nsecond\n')], { end: false });
    const messages: string[] = [];
    const abort = new AbortController();
    const onprogress = ({ message = '' }) => messages.push(message);
    const running = call('run_code', { sandboxId: 'sbx_1', code: '1' }, { onprogress, signal: abort.signal });
    await eventually(() => messages.includes('second'), { because: 'the output is reported while the run goes on' });
    abort.abort();
    await assert.rejects(running);
    await server.requests.at(-1)?.disconnected;
  });

  it('cloche mcp says what is wrong with a call', async () => {
    const refused = await call('preview_open', { sandboxId: 'sbx_1', port: 70_000 }).catch((error) => error);
    assert.match(refused.content?.[0].text ?? refused.message, /port/);
  });
});

describe('the sandbox of a host that has started cloche mcp', () => {
  it('the sandbox of a host that has started cloche mcp is that of all its calls that name none, and is destroyed when the host closes the input', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const sandbox = { ...sampleSandbox(), id: 'sbx_7', expiresAt };
    reply = (path) => (path.includes('/files') ? json(201, { file }) : json(200, { sandbox }));
    await using host = await connected();
    const before = server.requests.length;
    const written = (await host.client.callTool({ name: 'file_write', arguments: { path: 'a', text: 'x' } })) as Answer;
    assert.equal(written.structuredContent.sandboxId, 'sbx_7');
    assert.match(written.content.at(-1).text, /sbx_7 is the sandbox of this session/);
    await host.client.callTool({ name: 'file_write', arguments: { path: 'a', text: 'y' } });
    await host.client.close();
    const sent = server.requests.slice(before).map(({ method, path }) => `${method} ${path.split('?')[0]}`);
    const write = sent.find((line) => line.startsWith('PUT'));
    assert.deepEqual(sent, [
      'POST /v1/sandboxes',
      write,
      'GET /v1/sandboxes/sbx_7',
      write,
      'DELETE /v1/sandboxes/sbx_7',
    ]);
  });
});
