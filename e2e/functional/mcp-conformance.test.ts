/** Holds the Model Context Protocol to its official conformance package. */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { execa } from 'execa';
import { type BearerProxy, startBearerProxy } from '../support/bearer-proxy.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PROGRAM = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'));

const APPLICABLE: readonly string[] = ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'];
/** Scenarios that call a tool of the package's own example server. */
const NEEDS_TOOL: Readonly<Record<string, string>> = {
  'tools-call-simple-text': 'test_simple_text',
  'tools-call-image': 'test_image_content',
  'tools-call-audio': 'test_audio_content',
  'tools-call-embedded-resource': 'test_embedded_resource',
  'tools-call-mixed-content': 'test_multiple_content_types',
  'tools-call-with-logging': 'test_tool_with_logging',
  'tools-call-error': 'test_error_handling',
  'tools-call-with-progress': 'test_tool_with_progress',
  'tools-call-sampling': 'test_sampling',
  'tools-call-elicitation': 'test_elicitation',
  'json-schema-2020-12': 'json_schema_2020_12_tool',
  'elicitation-sep1034-defaults': 'test_elicitation_sep1034_defaults',
  'elicitation-sep1330-enums': 'test_elicitation_sep1330_enums',
};
/** Scenarios of what a server may have besides tools, and announces if it has it. */
const NEEDS_CAPABILITY: Readonly<Record<string, string>> = {
  'logging-set-level': 'logging',
  'completion-complete': 'completions',
  'resources-list': 'resources',
  'resources-read-text': 'resources',
  'resources-read-binary': 'resources',
  'resources-templates-read': 'resources',
  'resources-subscribe': 'resources',
  'resources-unsubscribe': 'resources',
  'prompts-list': 'prompts',
  'prompts-get-simple': 'prompts',
  'prompts-get-with-args': 'prompts',
  'prompts-get-embedded-resource': 'prompts',
  'prompts-get-with-image': 'prompts',
};
/** Scenarios of streams of a session, which they find by the header `mcp-session-id`. */
const NEEDS_SESSION: readonly string[] = ['server-sse-polling', 'server-sse-multiple-streams'];

interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED';
  readonly errorMessage?: string;
}

describe('the conformance package of the Model Context Protocol', () => {
  let service: TestService;
  let proxy: BearerProxy;
  let results: string;
  before(async () => {
    service = await sharedService();
    proxy = await startBearerProxy(service.url, service.apiKey);
    results = mkdtempSync(join(tmpdir(), 'cloche-mcp-conformance-'));
  });
  after(async () => {
    await proxy?.[Symbol.asyncDispose]();
    if (results) rmSync(results, { recursive: true });
    await service?.close();
  });

  /** Returns the checks of a scenario. The service sees pages of `localhost`, as the package sends them. */
  async function checksOf(scenario: string): Promise<Check[]> {
    const url = `http://localhost:${proxy.port}/mcp`;
    const options = ['server', '--url', url, '--scenario', scenario, '--output-dir', results];
    const { all } = await execa(process.execPath, [PROGRAM, ...options], { all: true, reject: false });
    const [file] = globSync(join(results, `server-${scenario}-*`, 'checks.json'));
    assert.ok(file, all);
    return JSON.parse(readFileSync(file, 'utf8'));
  }

  for (const scenario of APPLICABLE) {
    it(`passes its scenario ${scenario}`, async () => {
      const checks = await checksOf(scenario);
      assert.ok(checks.some(({ status }) => status === 'SUCCESS'));
      for (const check of checks) assert.match(check.status, /^(SUCCESS|INFO)$/, JSON.stringify(check));
    });
  }

  it('has no other scenario that applies to a server of tools without sessions', async (context) => {
    const { stdout } = await execa(process.execPath, [PROGRAM, 'list', '--server']);
    const scenarios = [...stdout.matchAll(/^ {2}- ([\w-]+) \[/gm)].map(([, name = '']) => name);
    const reasons: Readonly<Record<string, string>> = {
      ...Object.fromEntries(Object.entries(NEEDS_TOOL).map(([name, tool]) => [name, `calls its own tool ${tool}`])),
      ...Object.fromEntries(Object.entries(NEEDS_CAPABILITY).map(([name, part]) => [name, `needs ${part}`])),
      ...Object.fromEntries(NEEDS_SESSION.map((name) => [name, 'needs a session'])),
    };
    for (const [name, reason] of Object.entries(reasons)) context.diagnostic(`not applicable: ${name}: ${reason}`);
    assert.deepEqual(scenarios.sort(), [...APPLICABLE, ...Object.keys(reasons)].sort());

    let sessionId: string | null = null;
    const client = new Client({ name: 'test', version: '1' });
    const transport = new StreamableHTTPClientTransport(new URL(`http://localhost:${proxy.port}/mcp`), {
      fetch: async (input, init) => {
        const response = await fetch(input, init);
        sessionId ??= response.headers.get('mcp-session-id');
        return response;
      },
    });
    await client.connect(transport);
    const capabilities = Object.keys(client.getServerCapabilities() ?? {});
    const tools = (await client.listTools()).tools.map(({ name }) => name);
    await client.close();
    assert.ok(capabilities.includes('tools') && tools.includes('run_code'));
    for (const capability of Object.values(NEEDS_CAPABILITY)) assert.ok(!capabilities.includes(capability), capability);
    for (const tool of Object.values(NEEDS_TOOL)) assert.ok(!tools.includes(tool), tool);
    assert.equal(sessionId, null);
  });
});
