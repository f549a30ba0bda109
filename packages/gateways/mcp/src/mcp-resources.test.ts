/** Resources, prompts and completions of MCP, at a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let client: Client;
let sandboxId: string;
let artifactId: string;
before(async () => {
  tenants = await openTenants({ CLOCHE_MCP: 'on' });
  client = await connected(tenants.keys.whole);
  const written = await client.callTool({ name: 'file_write', arguments: { path: 'a b%.txt', text: 'hello' } });
  ({ sandboxId } = written.structuredContent as { sandboxId: string });
  await write('table.csv', 'a,b\n');
  await write('bytes', Buffer.from([0, 255]));
  await write('picture.png', Buffer.from('picture'));
  await write('sound.wav', Buffer.from('sound'));
  await write('large.txt', Buffer.alloc(2 ** 20 + 1, 'x'));
  const kept = await client.callTool({ name: 'artifact_export', arguments: { path: 'table.csv' } });
  artifactId = (kept.structuredContent as { artifact: { id: string } }).artifact.id;
});
after(async () => {
  await client?.close();
  await tenants?.close();
});

async function connected(key: string, options = {}): Promise<Client> {
  const connecting = new Client({ name: 'test', version: '1' }, options);
  const url = new URL(`${tenants.server.url}/mcp`);
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  await connecting.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  return connecting;
}

async function write(path: string, body: string | Uint8Array): Promise<void> {
  const target = `/v1/sandboxes/${sandboxId}/files/content?path=${path}`;
  const { status } = await tenants.call(tenants.keys.whole, 'PUT', target, { body: new Uint8Array(Buffer.from(body)) });
  assert.ok(status < 300, `${path}: ${status}`);
}

const fileUri = (path: string) => `cloche://sandbox/${sandboxId}/workspace/${path}`;

describe('a resource', () => {
  it('a resource is a file of a sandbox or an artifact, as text if it is text', async () => {
    for (const [uri, expected] of [
      [fileUri('a%20b%25.txt'), { mimeType: 'text/plain', text: 'hello' }],
      [fileUri('table.csv'), { mimeType: 'text/csv', text: 'a,b\n' }],
      [fileUri('bytes'), { mimeType: 'application/octet-stream', blob: 'AP8=' }],
      [fileUri('picture.png'), { mimeType: 'image/png', blob: Buffer.from('picture').toString('base64') }],
      [`cloche://artifact/${artifactId}`, { mimeType: 'text/csv', text: 'a,b\n' }],
    ] as const)
      assert.deepEqual((await client.readResource({ uri })).contents, [{ uri, ...expected }]);
  });

  it('a resource is listed if it is in the sandbox of the session, or an artifact', async () => {
    const uris = (await client.listResources()).resources.map(({ uri }) => uri);
    for (const uri of [fileUri('a%20b%25.txt'), fileUri('table.csv'), `cloche://artifact/${artifactId}`])
      assert.ok(uris.includes(uri), uri);
    for (const options of [{}, { versionNegotiation: { mode: 'auto' } }]) {
      const other = await connected(tenants.keys.whole, options);
      const seen = (await other.listResources()).resources.map(({ uri }) => uri);
      assert.deepEqual(seen, [`cloche://artifact/${artifactId}`]);
      assert.equal((await other.readResource({ uri: fileUri('table.csv') })).contents.length, 1);
      await other.close();
    }
    const templates = (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate);
    assert.deepEqual(templates, ['cloche://sandbox/{sandboxId}/{+path}', 'cloche://artifact/{artifactId}']);
  });

  it('a resource is refused with the reason, and never fails the server', async () => {
    const foreign = await connected(tenants.keys.foreign);
    for (const [reader, uri, reason] of [
      [client, fileUri('missing'), /not_found/],
      [client, fileUri('large.txt'), /payload_too_large.*1048576.*command_run/],
      [client, `cloche://sandbox/${sandboxId}/workspace`, /./],
      [client, `cloche://sandbox/${sandboxId}/%ff`, /./],
      [client, 'cloche://sandbox/sbx_none/a', /not_found/],
      [client, 'cloche://sandbox/%2e%2e/a', /./],
      [client, 'cloche://artifact/art_none', /not_found/],
      [client, 'cloche://artifact/../../a', /./],
      [client, 'cloche://elsewhere/a', /./],
      [client, 'file:///etc/passwd', /not found/i],
      [client, 'http://127.0.0.1/', /not found/i],
      [client, 'nonsense', /./],
      [client, `cloche://sandbox/${sandboxId}/${'a/'.repeat(20_000)}`, /./],
      [foreign, fileUri('table.csv'), /not_found/],
      [foreign, `cloche://artifact/${artifactId}`, /not_found/],
    ] as const)
      await assert.rejects(reader.readResource({ uri }), { message: reason }, uri.slice(0, 100));
    assert.deepEqual((await foreign.listResources()).resources, []);
    await foreign.close();
  });
});

describe('file_read', () => {
  it('file_read returns a picture, a sound, text and bytes in the form that hosts show', async () => {
    const shown = async (path: string) => {
      const { content, structuredContent } = await client.callTool({ name: 'file_read', arguments: { path } });
      const [first] = content as { type: string }[];
      return [first?.type, (structuredContent as { mimeType: string }).mimeType];
    };
    assert.deepEqual(await shown('picture.png'), ['image', 'image/png']);
    assert.deepEqual(await shown('sound.wav'), ['audio', 'audio/wav']);
    assert.deepEqual(await shown('table.csv'), ['text', 'text/csv']);
    assert.deepEqual(await shown('bytes'), ['resource', 'application/octet-stream']);
  });
});

describe('a prompt', () => {
  it('a prompt has its arguments and what it is about', async () => {
    const { prompts } = await client.listPrompts();
    assert.deepEqual(
      prompts.map(({ name }) => name),
      ['solve_with_code', 'discuss_file', 'tidy_up'],
    );
    const solve = await client.getPrompt({
      name: 'solve_with_code',
      arguments: { task: 'the task', language: 'typescript' },
    });
    assert.match(JSON.stringify(solve.messages), /typescript.*the task/);
    const tidy = await client.getPrompt({ name: 'tidy_up' });
    assert.match(JSON.stringify(tidy.messages), new RegExp(sandboxId));
    for (const [file, type] of [
      [fileUri('picture.png'), 'image'],
      [fileUri('sound.wav'), 'audio'],
      [fileUri('table.csv'), 'resource'],
      [`cloche://artifact/${artifactId}`, 'resource'],
    ] as const) {
      const { messages } = await client.getPrompt({ name: 'discuss_file', arguments: { file, question: 'Why?' } });
      assert.deepEqual(
        messages.map(({ content }) => content.type),
        [type, 'text'],
      );
    }
  });

  it('a prompt is refused if an argument is missing, too long or names nothing', async () => {
    for (const [name, given] of [
      ['solve_with_code', {}],
      ['solve_with_code', { task: 'x'.repeat(30_000) }],
      ['solve_with_code', { task: 'x', language: 'cobol' }],
      ['discuss_file', { file: 'nonsense' }],
      ['discuss_file', { file: fileUri('missing') }],
      ['discuss_file', { file: 'file:///etc/passwd' }],
      ['unknown', {}],
    ] as const)
      await assert.rejects(
        client.getPrompt({ name, arguments: given }),
        `${name} ${JSON.stringify(given).slice(0, 80)}`,
      );
  });
});

describe('a completion', () => {
  const complete = async (ref: object, name: string, value: string, given: Record<string, string> = {}) => {
    const params = { ref: ref as never, argument: { name, value }, context: { arguments: given } };
    return (await client.complete(params)).completion.values;
  };
  const FILE = { type: 'ref/resource', uri: 'cloche://sandbox/{sandboxId}/{+path}' };

  it('a completion suggests languages, sandboxes, paths and artifacts, and nothing where it has none', async () => {
    const solve = { type: 'ref/prompt', name: 'solve_with_code' };
    assert.deepEqual(await complete(solve, 'language', 'ty'), ['typescript']);
    assert.deepEqual(await complete(solve, 'task', 'x'), []);
    assert.deepEqual(await complete(FILE, 'sandboxId', sandboxId.slice(0, 8)), [sandboxId]);
    assert.deepEqual(await complete(FILE, 'path', 'workspace/tab', { sandboxId }), ['workspace/table.csv']);
    assert.deepEqual(await complete(FILE, 'path', 'workspace/tab'), ['workspace/table.csv']);
    assert.deepEqual(await complete(FILE, 'path', 'none/', { sandboxId }), []);
    assert.deepEqual(await complete(FILE, 'path', '', { sandboxId: 'sbx_none' }), []);
    const artifact = { type: 'ref/resource', uri: 'cloche://artifact/{artifactId}' };
    assert.deepEqual(await complete(artifact, 'artifactId', 'art_'), [artifactId]);
    await assert.rejects(complete({ type: 'ref/prompt', name: 'unknown' }, 'a', ''));
  });
});
