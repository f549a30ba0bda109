/** Holds the Model Context Protocol to its official conformance package. */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Cloche, type Sandbox } from '@cloche/sdk';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { execa, execaSync } from 'execa';
import { type BearerProxy, startBearerProxy } from '../support/bearer-proxy.ts';
import { FILES, standIns, withOwnNames } from '../support/conformance-names.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PROGRAM = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'));

/** Scenarios that cannot pass, each with its reason. */
const NOT_OFFERED: Readonly<Record<string, string>> = {
  'tools-call-sampling': 'the service asks nothing of a host, so it has no tool that samples',
  'tools-call-elicitation': 'the service asks nothing of a host, so it has no tool that asks its user',
  'elicitation-sep1034-defaults': 'as above',
  'elicitation-sep1330-enums': 'as above',
  'json-schema-2020-12': "looks for the definition `address` in the schema of the package's own tool",
};
/** Warnings of scenarios that pass: what the protocol recommends and the service does not do. */
const WARNED: Readonly<Record<string, string>> = {
  'server-sse-priming-event': 'streams cannot be resumed: a client that loses its connection cancels its call',
  'server-sse-retry-field': 'as above',
};

interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED';
  readonly errorMessage?: string;
}

describe('the conformance package of the Model Context Protocol', () => {
  let service: TestService;
  let proxy: BearerProxy;
  let sandbox: Sandbox;
  let results: string;
  let output: string;
  before(async () => {
    service = await sharedService();
    const { id } = await service.api.readySandbox();
    const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
    sandbox = await cloche.sandboxes.get(id);
    for (const [path, content] of Object.entries(FILES)) await sandbox.files.write(path, content);
    const names = standIns(id);
    proxy = await startBearerProxy(service.url, service.apiKey, (message) => withOwnNames(names, message));
    results = mkdtempSync(join(tmpdir(), 'cloche-mcp-conformance-'));
    // The service sees pages of `localhost`, as the package sends them.
    const options = [
      'server',
      '--url',
      `http://localhost:${proxy.port}/mcp`,
      '--suite',
      'all',
      '--output-dir',
      results,
    ];
    output = (await execa(process.execPath, [PROGRAM, ...options], { all: true, reject: false })).all;
  });
  after(async () => {
    await proxy?.[Symbol.asyncDispose]();
    if (results) rmSync(results, { recursive: true });
    await sandbox?.kill();
    await service?.close();
  });

  /** Returns the checks of a scenario. */
  function checksOf(scenario: string): Check[] {
    const [file] = globSync(join(results, `server-${scenario}-*`, 'checks.json'));
    assert.ok(file, output);
    return JSON.parse(readFileSync(file, 'utf8'));
  }

  const { stdout } = execaSync(process.execPath, [PROGRAM, 'list', '--server']);
  const scenarios = [...stdout.matchAll(/^ {2}- ([\w-]+) \[/gm)].map(([, name = '']) => name);

  it('the conformance package of the Model Context Protocol has the scenarios that are known', () => {
    assert.equal(scenarios.length, 32);
    for (const name of Object.keys(NOT_OFFERED)) assert.ok(scenarios.includes(name), name);
  });

  for (const scenario of scenarios.filter((name) => !(name in NOT_OFFERED))) {
    it(`the conformance package of the Model Context Protocol passes its scenario ${scenario}`, () => {
      const checks = checksOf(scenario);
      for (const check of checks) {
        const isExpected = check.status === 'WARNING' && check.id in WARNED;
        assert.ok(isExpected || /^(SUCCESS|INFO)$/.test(check.status), JSON.stringify(check));
      }
      assert.ok(checks.some(({ status, id }) => status === 'SUCCESS' || id in WARNED));
    });
  }

  it('the conformance package of the Model Context Protocol has no other scenario that fails for another reason', async (context) => {
    for (const [name, reason] of Object.entries(NOT_OFFERED)) {
      context.diagnostic(`not offered: ${name}: ${reason}`);
      assert.ok(
        checksOf(name).some(({ status }) => status === 'FAILURE'),
        name,
      );
    }
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://localhost:${proxy.port}/mcp`)));
    const capabilities = client.getServerCapabilities();
    const tools = (await client.listTools()).tools.map(({ name }) => name);
    await client.close();
    assert.deepEqual(Object.keys(capabilities ?? {}).sort(), [
      'completions',
      'logging',
      'prompts',
      'resources',
      'tools',
    ]);
    assert.equal(capabilities?.resources?.subscribe, true);
    for (const tool of ['test_sampling', 'test_elicitation', 'json_schema_2020_12_tool'])
      assert.ok(!tools.includes(tool), tool);
  });
});
