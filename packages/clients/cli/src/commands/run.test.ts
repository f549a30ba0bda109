import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import {
  eventStream,
  failing,
  frame,
  json,
  type Reply,
  type ScriptedServer,
  sampleContext,
  sampleRun,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { exitOf, startCloche } from '../../testing/run-cloche.ts';
import { runInProcess } from '../../testing/run-in-process.ts';

const PNG = 'iVBORw0KGgo=';

/** Starts a service that creates one sandbox and answers runs with `run`. */
async function startService(run: Reply): Promise<ScriptedServer & { env: Record<string, string> }> {
  const server = await startScriptedServer(({ method, path }) => {
    if (path.endsWith('/stream')) return run;
    if (path.includes('/contexts/')) return json(200, { context: sampleContext({ language: 'typescript' }) });
    if (method === 'GET') return json(200, { sandbox: sampleSandbox({ status: 'ready' }) });
    if (method === 'DELETE') return json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) });
    const expiresAt = new Date(Date.now() + 3_590_000).toISOString();
    return json(201, { sandbox: sampleSandbox({ expiresAt }) });
  });
  return Object.assign(server, { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' } });
}

function callsOf(server: ScriptedServer): string[] {
  return server.requests.map(({ method, path }) => `${method} ${path}`);
}

function stream(...frames: string[]): Reply {
  return eventStream([...frames, frame('complete', sampleRun())]);
}

function output(format: string, value: string, bundle = 0) {
  return frame('output', { kind: 'inline', format, value, mimeType: '-', role: 'result', bundle });
}

const create = 'POST /v1/sandboxes';
const runStream = 'POST /v1/sandboxes/sbx_1/code/runs/stream';
const kill = 'DELETE /v1/sandboxes/sbx_1';

describe('cloche run', () => {
  it('cloche run prints to the streams that the code printed to, and kills the sandbox it made', async () => {
    await using service = await startService(
      stream(frame('stdout', 'a\n'), frame('stderr', 'b\n'), frame('stdout', 'c')),
    );
    const outcome = await runInProcess(['run', '-c', 'print(1)'], { env: service.env });
    assert.deepEqual(outcome, { exitCode: 0, stdout: 'a\nc', stderr: 'b\n' });
    assert.deepEqual(callsOf(service), [create, runStream, kill]);
    assert.deepEqual(service.requests[1]?.body, { code: 'print(1)', language: 'python' });
  });

  it('cloche run lets its sandbox outlive the run only by a little, in case no client is left to kill it', async () => {
    await using service = await startService(stream());
    await runInProcess(
      ['run', '-c', '1', '--timeout', '90s', '--network', 'allowlist:api.example.org,*.example.com'],
      service,
    );
    const networkPolicy = { mode: 'allowlist', hosts: ['api.example.org', '*.example.com'] };
    assert.deepEqual(service.requests[0]?.body, { ttlMs: 210_000, networkPolicy });
    assert.deepEqual(service.requests[2]?.body, { code: '1', language: 'python', timeoutMs: 90_000 });
  });

  it('cloche run applies `--timeout` to the code, not to the wait for the sandbox', async () => {
    await using service = await startService(stream());
    await runInProcess(['run', '-c', '1', '--timeout', '1s'], service);
    assert.deepEqual(callsOf(service), [create, 'GET /v1/sandboxes/sbx_1?waitFor=ready&waitMs=60000', runStream, kill]);
  });

  it('cloche run takes the language from the name of the file, and code from standard input', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cloche-cli-'));
    await using service = await startService(stream());
    await writeFile(join(folder, 'cell.ts'), 'const n: number = 1');
    await runInProcess(['run', join(folder, 'cell.ts')], service);
    await runInProcess(['run', '-', '-l', 'javascript'], { env: service.env, input: 'let x = 1' });
    await rm(folder, { recursive: true });
    const bodies = service.requests.filter(({ path }) => path.endsWith('/stream')).map(({ body }) => body);
    assert.deepEqual(bodies, [
      { code: 'const n: number = 1', language: 'typescript' },
      { code: 'let x = 1', language: 'javascript' },
    ]);
  });

  it('cloche run writes the traceback of code that fails to standard error and exits with 1', async () => {
    const error = { name: 'ValueError', message: 'no', traceback: ['Traceback:', '  line 1', 'ValueError: no'] };
    const failed = eventStream([
      frame('stdout', 'half a line'),
      frame('error', error),
      frame('complete', sampleRun({ error })),
    ]);
    await using service = await startService(failed);
    const outcome = await runInProcess(['run', '-c', '…'], service);
    assert.deepEqual(outcome, { exitCode: 1, stdout: 'half a line', stderr: 'Traceback:\n  line 1\nValueError: no\n' });
    assert.equal(callsOf(service).at(-1), kill);
  });

  it('cloche run names an error that has no traceback', async () => {
    const error = { name: 'TimeoutError', message: 'The run took longer than 60000 ms.' };
    await using service = await startService(eventStream([frame('complete', sampleRun({ error }))]));
    const { stderr } = await runInProcess(['run', '-c', '…'], service);
    assert.equal(stderr, 'TimeoutError: The run took longer than 60000 ms.\n');
  });

  it('cloche run shows the readable form of a value, and says that there is a picture', async () => {
    await using service = await startService(
      stream(output('html', '<b>2</b>'), output('text', '2'), output('text', '<Figure>', 1), output('png', PNG, 1)),
    );
    const outcome = await runInProcess(['run', '-c', '…'], service);
    assert.equal(outcome.stdout, '2\n');
    assert.equal(outcome.stderr, 'png, 8 B; use --save-outputs DIR to save it\n');
  });

  it('saves rich outputs as files', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cloche-cli-'));
    await using service = await startService(
      stream(output('text', '<Figure>'), output('png', PNG), output('html', 'ü', 1)),
    );
    const { stderr } = await runInProcess(['run', '-c', '…', '--save-outputs', join(folder, 'new')], service);
    assert.match(stderr, /png, 8 B; saved to .*output-1\.png/);
    assert.deepEqual(await readFile(join(folder, 'new', 'output-1.png')), Buffer.from(PNG, 'base64'));
    assert.equal(await readFile(join(folder, 'new', 'output-2.html'), 'utf8'), 'ü');
    await rm(folder, { recursive: true });
  });

  it('cloche run prints each event as a line of JSON with --json', async () => {
    await using service = await startService(stream(frame('stdout', 'a'), output('text', '2')));
    const { stdout, stderr } = await runInProcess(['run', '-c', '…', '--json'], service);
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { type: string });
    assert.deepEqual(
      events.map(({ type }) => type),
      ['stdout', 'output', 'complete'],
    );
    assert.equal(stderr, '');
  });

  it('cloche run leaves a sandbox alone that was there before, and speaks the language of a context that is named', async () => {
    await using service = await startService(stream());
    await runInProcess(['run', '--sandbox', 'sbx_1', '--context', 'cctx_1', '-c', '1'], service);
    assert.deepEqual(callsOf(service), ['GET /v1/sandboxes/sbx_1/code/contexts/cctx_1', runStream]);
    assert.deepEqual(service.requests[1]?.body, { code: '1', language: 'typescript', contextId: 'cctx_1' });
  });

  it('cloche run keeps its sandbox with --keep and says how to use it again', async () => {
    await using service = await startService(stream());
    const { stderr } = await runInProcess(['run', '--keep', '-c', '1'], service);
    assert.deepEqual(callsOf(service), [create, runStream]);
    assert.deepEqual(service.requests[0]?.body, {});
    assert.match(stderr, /^Kept sbx_1, which ends in 1 h \(.*\d\d:\d\d\): cloche run --sandbox sbx_1\n$/);
  });

  it('cloche run kills its sandbox when the run cannot be opened', async () => {
    await using service = await startService(failing('sandbox_failed'));
    const { exitCode, stderr } = await runInProcess(['run', '-c', '1'], service);
    assert.equal(exitCode, 1);
    assert.match(stderr, /^error: The sandbox failed/);
    assert.equal(callsOf(service).at(-1), kill);
  });

  for (const nodeArgs of [[], ['--no-strip-types']]) {
    const how = nodeArgs.length === 0 ? '' : ', also under a Node that runs no TypeScript';
    it(`cloche run cancels the run and kills its sandbox on Ctrl-C${how}`, async () => {
      await using service = await startService(eventStream([frame('stdout', 'started\n')], { end: false }));
      const child = startCloche(['run', '-c', 'while True: pass'], { env: service.env, nodeArgs });
      const stderr = text(child.stderr);
      child.stdout.once('data', () => child.kill('SIGINT'));
      assert.equal(await exitOf(child), 130);
      await service.requests[1]?.disconnected;
      assert.equal(callsOf(service).at(-1), kill);
      assert.equal(await stderr, 'Interrupted.\n');
    });
  }

  it('cloche run stops when its reader does, and kills its sandbox without a word', async () => {
    const flood: Reply = async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = frame('stdout', 'x'.repeat(64 * 1024));
      // Ends with the connection, or after 6 GB.
      for (let sent = 0; sent < 100_000 && !response.destroyed; sent++) {
        response.write(chunk);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await using service = await startService(flood);
    const child = startCloche(['run', '-c', '…'], service);
    const stderr = text(child.stderr);
    child.stdout.once('data', () => child.stdout.destroy());
    assert.equal(await exitOf(child), 141);
    assert.equal(callsOf(service).at(-1), kill);
    assert.equal(await stderr, '');
  });

  it('cloche run refuses what contradicts itself, before anything is made', async () => {
    await using service = await startService(stream());
    for (const args of [
      ['-c', '1', 'file.py'],
      ['--sandbox', 'sbx_1', '--keep', '-c', '1'],
      ['-c', '1', '--timeout', '10'],
      ['-c', '1', '--network', 'allowlist'],
      ['-c', '1', '--language', 'ruby'],
    ]) {
      const { exitCode, stderr } = await runInProcess(['run', ...args], service);
      assert.equal(exitCode, 2, args.join(' '));
      assert.match(stderr, /^error: /);
    }
    assert.equal(service.requests.length, 0);
  });
});
