import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createRawServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { describe, it } from 'node:test';
import { RUNS_ACCEPTED } from '@cloche/protocol';
import { eventually, settled } from '@cloche/testkit/eventually';
import { dialer } from '../agent-endpoint.ts';
import { AgentHttpClient, type AgentHttpClientDeps } from './agent-http-client.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;
/** Called with the connection each time a run starts on it. */
type Told = (socket: Duplex) => void;

/** Starts an agent on a Unix socket that responds with `told` to runs and with `answer` to other requests. */
async function openAgent(
  told: Told,
  answer: Answer = (_, response) => response.end(),
  options: AgentHttpClientDeps = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  const socketPath = join(folder, 'agent.sock');
  let connections = 0;
  const sockets = new Set<Duplex>();
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response);
  }).on('upgrade', (_, socket, head) => {
    connections += 1;
    sockets.add(socket.on('error', () => {}));
    socket.on('end', () => socket.destroy());
    socket.write(RUNS_ACCEPTED);
    socket.on('data', () => told(socket));
    if (head.length > 0) told(socket);
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const client = new AgentHttpClient(dialer({ unix: socketPath }), options);
  return {
    client,
    connections: () => connections,
    run: (code = 'x', signal = new AbortController().signal) => client.run('cctx_1', { ...RUN, code }, signal),
    async [Symbol.asyncDispose]() {
      await client.close();
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

const RUN = {
  runId: 'run_1',
  code: 'x',
  timeoutMs: 1000,
  limits: { stdoutBytes: 1, stderrBytes: 1, outputBytes: 1, outputsBytes: 1 },
};
const line = (event: object) => `${JSON.stringify({ runId: 'run_1', ...event })}\n`;
const DONE = line({ type: 'done', data: { executionCount: 1, durationMs: 2 } });

async function drain(events: AsyncIterable<{ type: string }>): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of events) types.push(type);
  return types;
}

describe('the client of an agent', () => {
  it('the client of an agent yields the events of a run however the stream is cut into chunks', async () => {
    const text = line({ type: 'stdout', data: 'héllo — ✓' }) + DONE;
    await using agent = await openAgent((socket) => {
      const bytes = Buffer.from(text);
      let at = 0;
      const next = () => {
        if (at >= bytes.length) return;
        socket.write(bytes.subarray(at, at + 1), () => setImmediate(next));
        at += 1;
      };
      next();
    });
    const events: object[] = [];
    for await (const event of agent.run()) events.push(event);
    assert.deepEqual(events[0], { type: 'stdout', runId: 'run_1', data: 'héllo — ✓' });
    assert.equal(events.length, 2);
  });

  it('the client of an agent keeps its connections for the runs that follow', async () => {
    await using agent = await openAgent((socket) => socket.write(DONE));
    for (let run = 0; run < 20; run += 1) assert.deepEqual(await drain(agent.run()), ['done']);
    assert.equal(agent.connections(), 1);
    await Promise.all(Array.from({ length: 5 }, () => drain(agent.run())));
    assert.equal(agent.connections(), 5);
  });

  it('the client of an agent runs on after a refusal, and says what was refused', async () => {
    let refuse = true;
    await using agent = await openAgent((socket) => {
      socket.write(refuse ? `${JSON.stringify({ error: { code: 'queue_full', message: 'many wait' } })}\n` : DONE);
    });
    await assert.rejects(drain(agent.run()), { kind: 'busy' });
    refuse = false;
    assert.deepEqual(await drain(agent.run()), ['done']);
  });

  it('the client of an agent reads no further than a little ahead of its consumer', async () => {
    let written = 0;
    await using agent = await openAgent((socket) => {
      const next = () => {
        const event = line({ type: 'stdout', data: 'x'.repeat(65_536) });
        written += event.length;
        if (socket.write(event)) setImmediate(next);
        else socket.once('drain', next);
      };
      next();
    });
    const events = agent.run();
    await events.next();
    await settled(() => written, { forMs: 50 });
    assert.ok(written < 4 << 20, `${written} bytes`);
    await events.return();
  });

  const lies: [string, Told][] = [
    ['an event that is no JSON', (socket) => socket.write('{oops\n')],
    ['an event that does not fit the protocol', (socket) => socket.write(line({ type: 'stdout', data: 7 }))],
    ['more values than an event has', (socket) => socket.write(`${'['.repeat(1 << 20)}\n`)],
    ['a refusal that is none', (socket) => socket.write('{"error":{}}\n')],
  ];
  for (const [lie, told] of lies) {
    it(`the client of an agent calls ${lie} misbehaviour`, async () => {
      await using agent = await openAgent(told);
      await assert.rejects(drain(agent.run()), { name: 'AgentError', kind: 'misbehaved' });
    });
  }

  it('the client of an agent reads a flood of events in slices that let others work', async () => {
    const empty = line({ type: 'stdout', data: '' }).repeat(1000);
    await using agent = await openAgent((socket) => {
      const flood = (error?: Error | null) => {
        if (!error) socket.write(empty, flood);
      };
      flood();
    });
    let events = 0;
    const abort = new AbortController();
    const flood = (async () => {
      for await (const _ of agent.run('x', abort.signal)) events += 1;
    })();
    const began = performance.now();
    await eventually(() => events >= 10_000, { because: 'the events are read' });
    const elapsedMs = performance.now() - began;
    abort.abort(new Error('enough'));
    await assert.rejects(flood, /enough/);
    // A burst of a thousand events and then ten per millisecond; without rests, all of them take some tens of
    // milliseconds.
    assert.ok(elapsedMs > 400, `${events} events in ${elapsedMs} ms`);
  });

  it('the client of an agent takes no other answer to its request for a connection of runs', async () => {
    for (const answer of ['HTTP/1.1 200 OK\r\n\r\n', 'HTTP/1.1 101 Else\r\nconnection: upgrade\r\n\r\n', DONE]) {
      const folder = mkdtempSync(join(tmpdir(), 'agent-'));
      const server = createRawServer((socket) => socket.on('error', () => {}).end(answer));
      await new Promise<void>((resolve) => server.listen(join(folder, 'agent.sock'), resolve));
      const client = new AgentHttpClient(dialer({ unix: join(folder, 'agent.sock') }));
      await assert.rejects(drain(client.run('cctx_1', RUN, new AbortController().signal)), { kind: 'misbehaved' });
      await client.close();
      server.close();
      rmSync(folder, { recursive: true });
    }
  });

  it('the client of an agent uses no connection again on which more came than the run', async () => {
    await using agent = await openAgent((socket) => socket.write(DONE + DONE));
    assert.deepEqual(await drain(agent.run()), ['done']);
    assert.deepEqual(await drain(agent.run()), ['done']);
    assert.equal(agent.connections(), 2);
  });

  const wrongAnswers: [string, Answer][] = [
    ['an interim answer', (_, response) => response.writeProcessing()],
    ['an error body that is none', (_, response) => response.writeHead(500).end('{}')],
    ['an endless error body', (_, response) => response.writeHead(500).end('x'.repeat(100_000))],
  ];
  for (const [name, answer] of wrongAnswers) {
    it(`the client of an agent calls ${name} misbehaviour`, async () => {
      await using agent = await openAgent(() => {}, answer);
      const interrupted = agent.client.interrupt('cctx_1', new AbortController().signal);
      await assert.rejects(interrupted, { name: 'AgentError', kind: 'misbehaved' });
    });
  }

  it('the client of an agent calls a connection that breaks, or that there is not, gone', async () => {
    await using agent = await openAgent((socket) => {
      socket.write(line({ type: 'stdout', data: 'x' }), () => socket.destroy());
    });
    await assert.rejects(drain(agent.run()), { name: 'AgentError', kind: 'gone' });
    const unreachable = new AgentHttpClient(dialer({ unix: '/nonexistent/agent.sock' }));
    await assert.rejects(unreachable.checkHealth(new AbortController().signal), { kind: 'gone' });
    await assert.rejects(drain(unreachable.run('cctx_1', RUN, new AbortController().signal)), { kind: 'gone' });
    await unreachable.close();
  });

  const entry = (fields: object) => ({ seq: 1, stream: 'system', data: 'x', at: 0, ...fields });
  const entries = {
    'of more than 64 KiB': [entry({ data: 'x'.repeat(64 * 1024 + 1) })],
    'that is empty': [entry({ data: '' })],
    'whose number does not follow': [entry({ seq: 3 }), entry({ seq: 3 })],
    'of an impossible number': [entry({ seq: 2 ** 53 })],
    'of too many levels': [entry({ more: JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`) })],
  };
  for (const [name, logged] of Object.entries(entries)) {
    it(`the client of an agent takes no entry of a log ${name}, in a page or followed`, async () => {
      const follows = `${logged.map((each) => JSON.stringify({ type: 'log', entry: each })).join('\n')}\n`;
      const answer: Answer = ({ url }, response) =>
        response.end(url?.endsWith('/follow') ? follows : JSON.stringify({ entries: logged, hasMore: false }));
      await using agent = await openAgent(() => {}, answer);
      const { commands } = agent.client;
      const { signal } = new AbortController();
      await assert.rejects(commands.readLog('cmd_1', 0, 10, signal), { kind: 'misbehaved' });
      await assert.rejects(drain(commands.follow('cmd_1', 0, signal)), { kind: 'misbehaved' });
    });
  }

  it('the client of an agent leaves NUL out of texts that may become columns of a row', async () => {
    const answers = {
      '/commands/cmd_1': {
        id: 'cmd_1',
        status: 'failed',
        failureReason: 'no\0ne',
        signal: 'S\0',
        exitCode: 1,
        durationMs: 1,
      },
      '/contexts/cctx_1': { contextId: 'cctx_1', language: 'python', cwd: '/work\0space' },
    };
    await using agent = await openAgent(
      () => {},
      (request, response) => response.end(JSON.stringify(answers[request.url as keyof typeof answers])),
    );
    const { signal } = new AbortController();
    const command = await agent.client.commands.get('cmd_1', signal);
    assert.deepEqual([command.failureReason, command.signal], ['none', 'S']);
    const request = { language: 'python', cwd: '/', timeoutMs: 1 } as const;
    assert.equal((await agent.client.openContext('cctx_1', request, signal)).cwd, '/workspace');
  });

  it('the client of an agent leaves NUL out of the message of a refusal', async () => {
    const body = JSON.stringify({ error: { code: 'kernel_failed', message: 'no\0ne' } });
    await using agent = await openAgent(
      () => {},
      (_, response) => response.writeHead(500).end(body),
    );
    await assert.rejects(agent.client.interrupt('cctx_1', new AbortController().signal), { message: 'none' });
  });

  it('the client of an agent passes on what the agent refuses with', async () => {
    const notFound = JSON.stringify({ error: { code: 'not_found', message: 'no such context' } });
    await using agent = await openAgent(
      (socket) => socket.write(`${notFound}\n`),
      (_, response) => response.writeHead(404).end(notFound),
    );
    await assert.rejects(drain(agent.run()), { kind: 'not_found' });
    await assert.rejects(agent.client.interrupt('cctx_1', new AbortController().signal), { kind: 'not_found' });
  });

  it('the client of an agent closes the connection when a run is aborted or left, and says why', async () => {
    let closed = 0;
    await using agent = await openAgent((socket) => {
      socket.on('close', () => {
        closed += 1;
      });
      socket.write(line({ type: 'stdout', data: 'x' }));
    });
    const abort = new AbortController();
    await assert.rejects(
      async () => {
        for await (const _ of agent.run('x', abort.signal)) abort.abort(new Error('enough'));
      },
      { message: 'enough' },
    );
    for await (const _ of agent.run()) break;
    await eventually(() => closed === 2, { because: 'both connections close' });
  });
});
