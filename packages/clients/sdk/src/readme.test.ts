import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  eventStream,
  failing,
  frame,
  json,
  type Reply,
  type SeenRequest,
  sampleContext,
  sampleRun,
  sampleSandbox,
  startScriptedServer,
} from '../testing/index.ts';

const packageFolder = fileURLToPath(new URL('..', import.meta.url));
const execute = promisify(execFile);

/** Answers requests as the examples expect. */
function answer({ method, path, body }: SeenRequest): Reply {
  const { code, ttlMs } = (body ?? {}) as { code?: string; ttlMs?: number };
  if (ttlMs === 7_200_000) return failing('sandbox_ttl_exceeded', {}, { maxTtlMs: 3_600_000 });
  if (path.endsWith('/stream') && code === 'n + 1') {
    const output = { kind: 'inline', format: 'text', value: '2', mimeType: 'text/plain', role: 'result', bundle: 0 };
    return eventStream([frame('complete', { ...sampleRun(), outputs: [output] })]);
  }
  if (path.endsWith('/stream')) return eventStream([frame('stdout', '0\n1\n2\n'), frame('complete', sampleRun())]);
  if (path.endsWith('/runs')) return json(200, { run: sampleRun({ stdout: '42\n' }) });
  if (path.endsWith('/contexts')) return json(201, { context: sampleContext({ language: 'typescript' }) });
  return json(method === 'DELETE' ? 200 : 201, { sandbox: sampleSandbox() });
}

describe('the README', () => {
  it('the README has examples that run as they are printed', async () => {
    const readme = await readFile(`${packageFolder}/README.md`, 'utf8');
    const examples = [...readme.matchAll(/^ *```ts\n(.*?)^ *```/gms)].map(([, example]) => example ?? '');
    await using server = await startScriptedServer(answer);
    const env = { PATH: process.env.PATH, CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
    const printed = await Promise.all(
      examples.map(async (example) => {
        const args = ['--input-type=module-typescript', '--eval', example];
        return (await execute(process.execPath, args, { cwd: packageFolder, env })).stdout;
      }),
    );
    assert.deepEqual(printed, ['42\n undefined\n0\n1\n2\n\n2\n', 'at most 3600000 ms\n']);
    assert.ok(server.requests.some(({ method }) => method === 'DELETE'));
  });
});
