/** Holds the Model Context Protocol to the official client, in the revision of 2026-07-28 and in that of 2025-11-25. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

async function connect(apiKey: string, options = {}): Promise<Client> {
  const client = new Client({ name: 'cloche-test', version: '1' }, options);
  const headers = { authorization: `Bearer ${apiKey}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`), { requestInit: { headers } }));
  return client;
}

// biome-ignore lint/suspicious/noExplicitAny: structured content is read field by field
type Answer = { content: any[]; structuredContent?: any; isError?: boolean };

for (const [revision, options] of Object.entries({
  '2026-07-28': { versionNegotiation: { mode: 'auto' } },
  '2025-11-25': {},
})) {
  describe(`a client of the revision ${revision}`, () => {
    let client: Client;
    before(async () => {
      client = await connect(service.apiKey, options);
    });
    after(() => client?.close());

    const call = async (name: string, args: object): Promise<Answer> =>
      (await client.callTool({ name, arguments: args as Record<string, unknown> })) as Answer;

    it(`a client of the revision ${revision} is served in its own revision, and lists the tools with their schemas`, async () => {
      assert.equal(client.getNegotiatedProtocolVersion(), revision);
      const { tools } = await client.listTools();
      const names = tools.map(({ name }) => name);
      for (const name of ['run_code', 'sandbox_create', 'command_run', 'file_write'])
        assert.ok(names.includes(name), name);
      for (const { name, outputSchema, description } of tools) assert.ok(outputSchema && description, name);
    });

    it(`a client of the revision ${revision} runs code that keeps its variables, and gets a plot as an image`, async () => {
      const first = await call('run_code', { code: 'x = 20; print("hi")' });
      const { sandboxId, stdout } = first.structuredContent;
      assert.equal(stdout, 'hi\n');
      const second = await call('run_code', { sandboxId, code: 'x * 2 + 2' });
      assert.equal(second.structuredContent.result, '42');
      const plot = await call('run_code', {
        sandboxId,
        code: 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()',
      });
      const image = plot.content.find(({ type }) => type === 'image');
      assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG');
      const failed = await call('run_code', { sandboxId, code: '1 / 0' });
      assert.equal(failed.structuredContent.error.name, 'ZeroDivisionError');
      assert.equal((await call('sandbox_kill', { sandboxId })).structuredContent.sandbox.status, 'destroyed');
    });

    it(`a client of the revision ${revision} uses commands and files of a sandbox`, async () => {
      const { sandbox } = (await call('sandbox_create', { network: false, metadata: { by: revision } }))
        .structuredContent;
      const sandboxId = sandbox.id;
      await call('file_write', { sandboxId, path: 'notes/a.txt', text: 'written' });
      const ran = await call('command_run', { sandboxId, command: 'cat notes/a.txt; exit 3' });
      assert.deepEqual([ran.structuredContent.command.stdout, ran.structuredContent.command.exitCode], ['written', 3]);
      const started = await call('command_start', { sandboxId, command: 'echo begun; sleep 600' });
      const commandId = started.structuredContent.command.id;
      let logs = await call('command_logs', { sandboxId, commandId });
      while (!logs.structuredContent.output.includes('begun'))
        logs = await call('command_logs', { sandboxId, commandId });
      assert.equal(logs.structuredContent.status, 'running');
      assert.equal((await call('command_kill', { sandboxId, commandId })).structuredContent.command.id, commandId);
      await call('file_move', { sandboxId, path: 'notes/a.txt', to: 'b.txt' });
      assert.equal((await call('file_read', { sandboxId, path: 'b.txt' })).structuredContent.text, 'written');
      const listed = await call('file_list', { sandboxId, path: '.' });
      assert.ok(listed.structuredContent.files.some(({ path }: { path: string }) => path.endsWith('/b.txt')));
      await call('file_delete', { sandboxId, path: 'b.txt' });
      const gone = await call('file_read', { sandboxId, path: 'b.txt' });
      assert.equal(gone.isError, true);
      assert.match(gone.content[0].text, /^not_found: /);
      const found = await call('sandbox_list', { metadata: { by: revision } });
      assert.deepEqual(
        found.structuredContent.sandboxes.map(({ id }: { id: string }) => id),
        [sandboxId],
      );
      const { expiresAt } = (await call('sandbox_get', { sandboxId })).structuredContent.sandbox;
      const extended = await call('sandbox_extend', { sandboxId, ttlMs: 7_200_000 });
      assert.ok(extended.structuredContent.sandbox.expiresAt > expiresAt);
      await call('sandbox_kill', { sandboxId });
    });
  });
}

describe('a session', () => {
  it('a session keeps variables and files of calls that name no sandbox, and ends with its sandbox', async () => {
    const headers = { authorization: `Bearer ${service.apiKey}` };
    const transport = new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`), { requestInit: { headers } });
    const client = new Client({ name: 'cloche-test', version: '1' });
    await client.connect(transport);
    const call = async (name: string, args: Record<string, unknown>) =>
      ((await client.callTool({ name, arguments: args })) as Answer).structuredContent;
    const { sandboxId } = await call('run_code', { code: 'x = 20; open("a.txt", "w").write("written")' });
    assert.equal((await call('run_code', { code: 'x * 2 + 2' })).result, '42');
    assert.equal((await call('command_run', { command: 'cat a.txt' })).command.stdout, 'written');
    const uri = `cloche://sandbox/${sandboxId}/workspace/a.txt`;
    assert.ok((await client.listResources()).resources.some((resource) => resource.uri === uri));
    assert.deepEqual((await client.readResource({ uri })).contents, [{ uri, mimeType: 'text/plain', text: 'written' }]);
    await transport.terminateSession();
    await client.close();
    assert.equal((await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status, 'destroyed');
  });
});

describe('a request of an MCP client', () => {
  it('without a key is refused with 401, and a tool of a key without the scope with what is missing', async () => {
    const { status } = await fetch(`${service.url}/mcp`, { method: 'POST', body: '{}' });
    assert.equal(status, 401);
    const client = await connect(await service.createKey({ scopes: ['sandbox:read'] }));
    const refused = (await client.callTool({ name: 'sandbox_create', arguments: {} })) as Answer;
    assert.equal(refused.isError, true);
    assert.match(refused.content[0].text, /^forbidden: .*sandbox/);
    await client.close();
  });

  it('a request of an MCP client reaches no sandbox of another organization', async () => {
    const { id } = await service.api.readySandbox();
    const foreign = await service.createKey({ org: await service.createOrg('mcp-other'), scopes: ['*'] });
    const client = await connect(foreign);
    const refused = (await client.callTool({ name: 'sandbox_get', arguments: { sandboxId: id } })) as Answer;
    assert.match(refused.content[0].text, /^not_found: /);
    await client.close();
  });
});
