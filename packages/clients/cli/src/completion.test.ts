import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runCloche } from '../testing/run-cloche.ts';
import { type Candidate, completionsOf } from './completion.ts';
import { processTerminal } from './terminal/terminal.ts';

const IDS = ['sbx_2t6h456789abcdefghij', 'sbx_9t6h456789abcdefghij'] as const;

/** Returns the candidates, as a command line of these variables gives them. */
async function found(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Candidate[]> {
  const before = { ...process.env };
  for (const name of ['CLOCHE_URL', 'CLOCHE_API_KEY']) delete process.env[name];
  Object.assign(process.env, { HOME: '/nonexistent', ...env });
  try {
    return await completionsOf(words, processTerminal());
  } finally {
    for (const name of ['CLOCHE_URL', 'CLOCHE_API_KEY']) delete process.env[name];
    Object.assign(process.env, before);
  }
}

async function candidates(words: readonly string[], { env = {} }: { env?: Record<string, string> } = {}) {
  return (await found(words, env)).map(({ word }) => word);
}

describe('completion', () => {
  it('completion knows commands, their options and values', async () => {
    for (const [words, found] of [
      [['sa'], ['sandbox']],
      [['--url', 'http://x', 'sandbox', 'l'], ['list']],
      [
        ['sandbox', 'list', '--cr'],
        ['--created-after', '--created-before'],
      ],
      [['run', '--language', 'p'], ['python']],
      [
        ['run', '-l', ''],
        ['python', 'javascript', 'typescript'],
      ],
      [
        ['run', '--network', 'deny'],
        ['deny-all', 'denylist'],
      ],
      [
        ['completion', ''],
        ['bash', 'zsh', 'fish'],
      ],
      [
        ['command', 'kill', 'a', 'b', '-s', 'SIGT'],
        ['SIGTERM', 'SIGTSTP'],
      ],
      [['sandbox', 're'], ['resume']],
      [['sandbox', 'pause', 'a', '--re'], ['--retain']],
      [['sandbox', 'resume', '--t'], ['--ttl']],
      [['run', 'some-file'], []],
    ] as const)
      assert.deepEqual(await candidates(words), found, words.join(' '));
    assert.ok((await candidates([''])).includes('job'));
    assert.deepEqual(await candidates([]), await candidates(['']));
  });

  it('completion knows ids and templates of the service, with what they are', async () => {
    const data = IDS.map((id) => ({
      ...sampleSandbox({ id, status: 'ready' }),
      slug: 'report',
      description: '\u001b[2Jof mine',
    }));
    await using service = await startScriptedServer(() => json(200, { data, hasMore: false }));
    const env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: 'clk_test' };
    for (const words of [
      ['shell', ''],
      ['exec', 'sbx'],
      ['sandbox', 'delete', 'sbx_1', ''],
      ['sandbox', 'pause', ''],
      ['sandbox', 'resume', 'sbx_1', ''],
      ['run', '--sandbox', ''],
    ])
      assert.deepEqual(await candidates(words, { env }), IDS, words.join(' '));
    assert.deepEqual(await candidates(['cp', 'sbx_9'], { env }), [`${IDS[1]}:`]);
    assert.deepEqual(await candidates(['sandbox', 'get', 'sbx_2t6h'], { env }), [IDS[0]]);
    assert.match(service.requests.at(-1)?.path ?? '', /idPrefix=sbx_2t6h/);
    assert.deepEqual((await found(['template', 'delete', ''], env))[0], { word: 'report', is: 'of mine' });
  });

  it('completion is silent where the service is away or refuses', async () => {
    const env = { CLOCHE_URL: 'http://127.0.0.1:9', CLOCHE_API_KEY: 'k' };
    assert.deepEqual(await candidates(['shell', ''], { env }), []);
    assert.deepEqual(await candidates(['shell', '']), []);
    const { stdout, stderr, exitCode } = await runCloche(['completion', '--words', 'shell', ''], { env });
    assert.deepEqual([stdout, stderr, exitCode], ['', '', 0]);
  });
});
