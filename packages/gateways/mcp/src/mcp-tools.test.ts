/** Each MCP tool as a request to a whole server with a fake runtime. e2e/functional/mcp.test.ts has real sandboxes. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let client: Client;
before(async () => {
  tenants = await openTenants({ CLOCHE_MCP: 'on' });
  client = new Client({ name: 'test', version: '1' });
  const headers = { authorization: `Bearer ${tenants.keys.whole}` };
  const url = new URL(`${tenants.server.url}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
});
after(async () => {
  await client?.close();
  await tenants?.close();
});

// biome-ignore lint/suspicious/noExplicitAny: structured content is read field by field
async function call(name: string, args: Record<string, unknown>): Promise<any> {
  const answer = await client.callTool({ name, arguments: args });
  const [first] = answer.content as { text: string }[];
  if (answer.isError) throw new Error(`${name}: ${first?.text}`);
  return answer.structuredContent;
}

it('the tools of MCP run code and commands, read and write files, keep artifacts and open previews', async () => {
  const { sandbox } = await call('sandbox_create', { name: 'tools', metadata: { by: 'mcp' } });
  const sandboxId = sandbox.id;
  const { id, name } = (await call('sandbox_get', { sandboxId })).sandbox;
  assert.deepEqual([id, name], [sandboxId, 'tools']);
  assert.equal((await call('run_code', { sandboxId, code: 'value 42' })).result, '42');
  const ran = await call('command_run', { sandboxId, command: 'echo hi' });
  assert.ok(ran.command.id);
  const { command } = await call('command_start', { sandboxId, command: 'sleep 100' });
  const commandId = command.id;
  assert.ok('output' in (await call('command_logs', { sandboxId, commandId })));
  assert.equal((await call('command_kill', { sandboxId, commandId })).command.id, commandId);
  await call('file_write', { sandboxId, path: 'a.txt', text: 'hello' });
  assert.equal((await call('file_read', { sandboxId, path: 'a.txt' })).text, 'hello');
  const { artifact, url } = await call('artifact_export', { sandboxId, path: 'a.txt' });
  assert.equal(await (await fetch(url)).text(), 'hello');
  assert.equal((await call('artifact_get', { artifactId: artifact.id })).artifact.name, 'a.txt');
  const listed = await call('artifact_list', { sandboxId });
  assert.deepEqual(listed.artifacts, [artifact]);
  assert.match((await call('preview_open', { sandboxId, port: 8000 })).url, /\?cloche_token=/);
  const extended = await call('sandbox_extend', { sandboxId, ttlMs: 7_200_000 });
  assert.ok(extended.sandbox.expiresAt > sandbox.expiresAt);
  const { pausedAt } = (await call('sandbox_pause', { sandboxId, force: true, retainMs: 86_400_000 })).sandbox;
  const kept = (await call('sandbox_get', { sandboxId })).sandbox;
  assert.equal(Date.parse(kept.expiresAt) - Date.parse(pausedAt), 86_400_000);
  await assert.rejects(call('sandbox_extend', { sandboxId, ttlMs: 7_200_000 }), /sandbox_paused/);
  const resumed = (await call('sandbox_resume', { sandboxId, ttlMs: 600_000 })).sandbox;
  assert.equal(resumed.pausedAt, undefined);
  assert.ok(resumed.expiresAt < kept.expiresAt);
  await call('sandbox_pause', { sandboxId, force: true });
  assert.equal((await call('run_code', { sandboxId, code: 'value 7' })).result, '7');
  assert.equal((await call('sandbox_get', { sandboxId })).sandbox.pausedAt, undefined);
  assert.equal((await call('sandbox_kill', { sandboxId })).sandbox.status, 'destroyed');
  await assert.rejects(call('file_list', { sandboxId, path: '.' }), /sandbox_destroyed/);
});

it('the tools of MCP create a sandbox that only sandbox_resume wakes, and pass on what a policy must not be', async () => {
  const { sandbox } = await call('sandbox_create', { pause: { wake: 'explicit', retainMs: 86_400_000 } });
  const { expiresAt, pausedAt } = (await call('sandbox_pause', { sandboxId: sandbox.id })).sandbox;
  assert.equal(Date.parse(expiresAt) - Date.parse(pausedAt), 86_400_000);
  await assert.rejects(call('run_code', { sandboxId: sandbox.id, code: 'value 7' }), /sandbox_paused/);
  await call('sandbox_resume', { sandboxId: sandbox.id });
  assert.equal((await call('run_code', { sandboxId: sandbox.id, code: 'value 7' })).result, '7');
  await assert.rejects(call('sandbox_create', { pause: { afterIdleMs: 1 } }), /afterIdleMs/);
});
