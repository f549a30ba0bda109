import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ClientOptions, Cloche, type CodeRunEvent, isClocheError } from './index.ts';
import {
  drop,
  eventStream,
  failing,
  frame,
  json,
  type Script,
  sampleContext,
  sampleRun,
  sampleSandbox,
  startScriptedServer,
} from './testing/index.ts';

const ready = json(200, { sandbox: sampleSandbox({ status: 'ready' }) });

/** A sandbox of a server that answers `script` after the creation. */
async function setUp(script: Script, options: ClientOptions = {}) {
  const server = await startScriptedServer((request) => {
    if (request.path === '/v1/sandboxes') return json(201, { sandbox: sampleSandbox() });
    if (typeof script === 'function') return script(request);
    return script[server.requests.length - 2] ?? json(418, {});
  });
  const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1, ...options });
  const sandbox = await cloche.sandboxes.create({ template: 'python-node' });
  return { server, sandbox };
}

async function collect(events: AsyncIterable<CodeRunEvent>): Promise<CodeRunEvent[]> {
  const all: CodeRunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('a run', () => {
  it('is python in the default context unless said otherwise, with a key', async () => {
    const { server, sandbox } = await setUp([json(200, { run: sampleRun({ stdout: '42\n' }) })]);
    await using _ = server;
    const run = await sandbox.run('print(42)');
    assert.equal(run.stdout, '42\n');
    const request = server.requests[1];
    assert.equal(request?.path, '/v1/sandboxes/sbx_1/code/runs');
    assert.deepEqual(request?.body, { code: 'print(42)', language: 'python' });
    assert.ok(request?.headers['idempotency-key']);
  });

  it('takes language and id from the context that is given', async () => {
    const context = sampleContext({ id: 'cctx_7', language: 'typescript' });
    const { server, sandbox } = await setUp([
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

  it('is repeated with its key when the connection breaks, and then gets the stored result', async () => {
    const busy = failing('idempotency_request_in_progress', { 'retry-after': '0' });
    const { server, sandbox } = await setUp([drop, busy, json(200, { run: sampleRun({ executionCount: 9 }) })]);
    await using _ = server;
    assert.equal((await sandbox.run('1')).executionCount, 9);
    assert.equal(new Set(server.requests.slice(1).map(({ headers }) => headers['idempotency-key'])).size, 1);
  });

  it('that fails is a result and no rejection', async () => {
    const error = { name: 'ZeroDivisionError', message: 'division by zero' };
    const { server, sandbox } = await setUp([json(200, { run: sampleRun({ error }) })]);
    await using _ = server;
    assert.deepEqual((await sandbox.run('1/0')).error, error);
  });

  it('with a callback streams: each gets its part in order and is awaited', async () => {
    const output = { kind: 'inline', format: 'text', value: '2', mimeType: 'text/plain', role: 'result', bundle: 0 };
    const { server, sandbox } = await setUp([
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

  it('is canceled when its signal aborts, which takes a stream', async () => {
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    const { server, sandbox } = await setUp([
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

  it('is canceled when a callback throws, which is what it rejects with', async () => {
    const { server, sandbox } = await setUp([eventStream([frame('stdout', 'a')], { end: false })]);
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

describe('a stream', () => {
  it('survives frames and characters that are split across chunks', async () => {
    const bytes = Buffer.from(frame('stdout', 'zażółć 🫙\n') + frame('complete', sampleRun({ stdout: 'zażółć 🫙\n' })));
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    const { server, sandbox } = await setUp([eventStream([': comment\n\n', ...single])]);
    await using _ = server;
    const events = await collect(sandbox.stream('…'));
    assert.deepEqual(events[0], { type: 'stdout', data: 'zażółć 🫙\n' });
    assert.deepEqual(
      events.map(({ type }) => type),
      ['stdout', 'complete'],
    );
  });

  it('yields an event before the next one is sent', async () => {
    const gate = Promise.withResolvers<void>();
    const { server, sandbox } = await setUp([
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(frame('stdout', 'first'));
        await gate.promise;
        response.end(frame('complete', sampleRun()));
      },
    ]);
    await using _ = server;
    const seen: string[] = [];
    for await (const { type } of sandbox.stream('…')) {
      seen.push(type);
      gate.resolve();
    }
    assert.deepEqual(seen, ['stdout', 'complete']);
  });

  it('disconnects when the loop is left and when the signal aborts', async () => {
    const endless = eventStream([frame('stdout', 'a')], { end: false });
    const { server, sandbox } = await setUp([endless, endless]);
    await using _ = server;
    for await (const _event of sandbox.stream('…')) break;
    await server.requests[1]?.disconnected;

    const controller = new AbortController();
    const reason = new Error('stop');
    const consumed = collect(sandbox.stream('…', { signal: controller.signal }));
    await assert.rejects(
      Promise.race([
        consumed,
        (async () => {
          while (server.requests.length < 3) await new Promise((resolve) => setImmediate(resolve));
          controller.abort(reason);
          return consumed;
        })(),
      ]),
      reason,
    );
    await server.requests[2]?.disconnected;
  });

  it('is opened again while it cannot be opened, and never once it was', async () => {
    const opens = await setUp([failing('unavailable'), drop, eventStream([frame('complete', sampleRun())])]);
    await using _ = opens.server;
    assert.equal((await collect(opens.sandbox.stream('…'))).length, 1);
    assert.equal(new Set(opens.server.requests.slice(1).map(({ headers }) => headers['idempotency-key'])).size, 1);

    const breaks = await setUp([
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(frame('stdout', 'a'), () => response.socket?.destroy());
      },
    ]);
    await using __ = breaks.server;
    await assert.rejects(collect(breaks.sandbox.stream('…')), { code: 'stream_interrupted' });
    assert.equal(breaks.server.requests.length, 2);
  });

  it('throws an error of the platform, and yields an error of the code even when it has a platform name', async () => {
    const platform = { name: 'unavailable', message: 'The service is draining.' };
    const { server, sandbox } = await setUp([
      eventStream([frame('stdout', 'a'), frame('error', platform)]),
      eventStream([frame('error', { name: 'unavailable', message: 'mine' }), frame('complete', sampleRun())]),
    ]);
    await using _ = server;
    const seen: string[] = [];
    const failed = async () => {
      for await (const { type } of sandbox.stream('…')) seen.push(type);
    };
    await assert.rejects(failed, { code: 'unavailable', message: 'The service is draining.' });
    assert.deepEqual(seen, ['stdout']);
    assert.deepEqual(
      (await collect(sandbox.stream('…'))).map(({ type }) => type),
      ['error', 'complete'],
    );
  });

  it('does not count the time that its reader takes against the deadline', async () => {
    const frames = [frame('stdout', 'a'), frame('complete', sampleRun())];
    const { server, sandbox } = await setUp([eventStream(frames)], { timeoutMs: 50 });
    await using _ = server;
    const seen: string[] = [];
    for await (const { type } of sandbox.stream('…', { timeoutMs: 50 })) {
      seen.push(type);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    assert.deepEqual(seen, ['stdout', 'complete']);
  });

  it('ends with deadline_exceeded when the service falls silent', async () => {
    const { server, sandbox } = await setUp([eventStream([frame('stdout', 'a')], { end: false })], { timeoutMs: 40 });
    await using _ = server;
    await assert.rejects(collect(sandbox.stream('…', { timeoutMs: 40 })), { code: 'deadline_exceeded' });
    await server.requests[1]?.disconnected;
  });
});

describe('a sandbox', () => {
  it('waits on the server until it is ready', async () => {
    const { server, sandbox } = await setUp([json(200, { sandbox: sampleSandbox({ status: 'starting' }) }), ready]);
    await using _ = server;
    await sandbox.waitUntilReady();
    assert.equal(sandbox.info.status, 'ready');
    assert.match(server.requests[1]?.path ?? '', /^\/v1\/sandboxes\/sbx_1\?waitFor=ready&waitMs=60000$/);
  });

  it('says why it will never be ready', async () => {
    const failed = sampleSandbox({ status: 'failed', failureReason: 'no disk' });
    const { server, sandbox } = await setUp([json(200, { sandbox: failed })]);
    await using _ = server;
    const error = await sandbox.waitUntilReady().catch((caught: unknown) => caught);
    assert.ok(isClocheError(error, 'sandbox_failed'));
    assert.equal(error.details?.reason, 'no disk');
  });

  it('stops waiting at its time', async () => {
    const { server, sandbox } = await setUp(() => json(200, { sandbox: sampleSandbox() }));
    await using _ = server;
    await assert.rejects(sandbox.waitUntilReady({ timeoutMs: 60 }), {
      code: 'deadline_exceeded',
      message: /"creating"/,
    });
  });

  it('is killed at the end of the block that uses it', async () => {
    const { server, sandbox } = await setUp([json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) })]);
    await using _ = server;
    {
      await using own = sandbox;
      assert.equal(own.id, 'sbx_1');
    }
    assert.equal(`${server.requests[1]?.method} ${server.requests[1]?.path}`, 'DELETE /v1/sandboxes/sbx_1');
    assert.equal(sandbox.info.status, 'destroyed');
  });

  it('is listed by its labels, and takes a new lifetime', async () => {
    const longer = sampleSandbox({ expiresAt: '2026-01-01T05:00:00.000Z' });
    const { server, sandbox } = await setUp([json(200, { sandbox: longer })]);
    await using _ = server;
    await sandbox.setTtl(18_000_000);
    assert.deepEqual(server.requests[1]?.body, { ttlMs: 18_000_000 });
    assert.equal(sandbox.info.expiresAt, '2026-01-01T05:00:00.000Z');

    const listing = await startScriptedServer([json(200, { data: [sampleSandbox()], hasMore: false })]);
    await using __ = listing;
    const cloche = new Cloche({ url: listing.url, apiKey: 'clk_test' });
    const [first] = await cloche.sandboxes.list({ metadata: { team: 'blue' }, include: 'historical' });
    assert.equal(first?.id, 'sbx_1');
    assert.equal(listing.requests[0]?.path, '/v1/sandboxes?include=historical&metadata.team=blue');
  });

  it('has contexts that can be interrupted, restarted and deleted', async () => {
    const { server, sandbox } = await setUp(() => json(200, { context: sampleContext() }));
    await using _ = server;
    const context = await sandbox.contexts.get('cctx_1');
    await context.interrupt();
    await context.restart();
    await context.delete();
    const path = '/v1/sandboxes/sbx_1/code/contexts/cctx_1';
    assert.deepEqual(
      server.requests.slice(1).map((request) => `${request.method} ${request.path}`),
      [`GET ${path}`, `POST ${path}/interrupt`, `POST ${path}/restart`, `DELETE ${path}`],
    );
  });
});
