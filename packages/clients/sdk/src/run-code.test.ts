import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  drop,
  eventStream,
  failing,
  frame,
  json,
  sampleContext,
  sampleRun,
  scriptedSandbox,
} from '../testing/index.ts';

describe('a run', () => {
  it('a run is python in the default context unless said otherwise, with a key', async () => {
    const { server, sandbox } = await scriptedSandbox([json(200, { run: sampleRun({ stdout: '42\n' }) })]);
    await using _ = server;
    const run = await sandbox.run('print(42)');
    assert.equal(run.stdout, '42\n');
    const request = server.requests[1];
    assert.equal(request?.path, '/v1/sandboxes/sbx_1/code/runs');
    assert.deepEqual(request?.body, { code: 'print(42)', language: 'python' });
    assert.ok(request?.headers['idempotency-key']);
  });

  it('a run takes language and id from the context that is given', async () => {
    const context = sampleContext({ id: 'cctx_7', language: 'typescript' });
    const { server, sandbox } = await scriptedSandbox([
      json(201, { context }),
      json(200, { run: sampleRun() }),
      json(200, { run: sampleRun() }),
    ]);
    await using _ = server;
    const handle = await sandbox.contexts.create({ language: 'typescript' });
    await handle.run('1', { timeoutMs: 500 });
    await sandbox.run('1', { context: handle });
    assert.deepEqual(server.requests[1]?.body, { language: 'typescript' });
    assert.deepEqual(server.requests[2]?.body, {
      code: '1',
      language: 'typescript',
      contextId: 'cctx_7',
      timeoutMs: 500,
    });
    assert.deepEqual(server.requests[3]?.body, { code: '1', language: 'typescript', contextId: 'cctx_7' });
  });

  it('a run is repeated with its key when the connection breaks, and then gets the stored result', async () => {
    const busy = failing('idempotency_request_in_progress', { 'retry-after': '0' });
    const { server, sandbox } = await scriptedSandbox([
      drop,
      busy,
      json(200, { run: sampleRun({ executionCount: 9 }) }),
    ]);
    await using _ = server;
    assert.equal((await sandbox.run('1')).executionCount, 9);
    assert.equal(new Set(server.requests.slice(1).map(({ headers }) => headers['idempotency-key'])).size, 1);
  });

  it('a run that fails is a result and no rejection', async () => {
    const error = { name: 'ZeroDivisionError', message: 'division by zero' };
    const { server, sandbox } = await scriptedSandbox([json(200, { run: sampleRun({ error }) })]);
    await using _ = server;
    assert.deepEqual((await sandbox.run('1/0')).error, error);
  });

  it('a run with a callback streams: each gets its part in order and is awaited', async () => {
    const output = { kind: 'inline', format: 'text', value: '2', mimeType: 'text/plain', role: 'result', bundle: 0 };
    const { server, sandbox } = await scriptedSandbox([
      eventStream([
        frame('stdout', 'a'),
        frame('stderr', 'b'),
        frame('stdout', 'c'),
        frame('output', output),
        frame('complete', sampleRun({ executionCount: 3 })),
      ]),
    ]);
    await using _ = server;
    const seen: string[] = [];
    const run = await sandbox.run('…', {
      onStdout: async (text) => {
        await new Promise((resolve) => setImmediate(resolve));
        seen.push(`out ${text}`);
      },
      onStderr: (text) => void seen.push(`err ${text}`),
      onOutput: ({ value }) => void seen.push(`output ${value}`),
    });
    assert.deepEqual(seen, ['out a', 'err b', 'out c', 'output 2']);
    assert.equal(run.executionCount, 3);
    assert.equal(server.requests[1]?.path, '/v1/sandboxes/sbx_1/code/runs/stream');
  });

  it('a run is canceled when its signal aborts, which takes a stream', async () => {
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    const { server, sandbox } = await scriptedSandbox([
      (response, request) => {
        setImmediate(() => controller.abort(reason));
        return eventStream([frame('stdout', 'a')], { end: false })(response, request);
      },
    ]);
    await using _ = server;
    await assert.rejects(sandbox.run('…', { signal: controller.signal }), reason);
    assert.match(server.requests[1]?.path ?? '', /stream$/);
    await server.requests[1]?.disconnected;
  });

  it('a run is canceled when a callback throws, which is what it rejects with', async () => {
    const { server, sandbox } = await scriptedSandbox([eventStream([frame('stdout', 'a')], { end: false })]);
    await using _ = server;
    const failed = sandbox.run('…', {
      onStdout: () => {
        throw new Error('the terminal is gone');
      },
    });
    await assert.rejects(failed, /the terminal is gone/);
    await server.requests[1]?.disconnected;
  });
});
