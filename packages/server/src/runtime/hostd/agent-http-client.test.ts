import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { AgentHttpClient } from './agent-http-client.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on a Unix socket that answers as told. */
async function openAgent(answer: Answer) {
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  const socketPath = join(folder, 'agent.sock');
  let connections = 0;
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response);
  }).on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const client = new AgentHttpClient(socketPath);
  return {
    client,
    connections: () => connections,
    run: (code = 'x', signal = new AbortController().signal) => client.run('cctx_1', { ...RUN, code }, signal),
    async [Symbol.asyncDispose]() {
      await client.close();
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
  it('yields the events of a run however the stream is cut into chunks', async () => {
    const text = line({ type: 'stdout', data: 'héllo — ✓' }) + DONE;
    await using agent = await openAgent((_, response) => {
      const bytes = Buffer.from(text);
      let at = 0;
      const next = () => {
        if (at >= bytes.length) return response.end();
        response.write(bytes.subarray(at, at + 1), () => setImmediate(next));
        at += 1;
      };
      next();
    });
    const events: object[] = [];
    for await (const event of agent.run()) events.push(event);
    assert.deepEqual(events[0], { type: 'stdout', runId: 'run_1', data: 'héllo — ✓' });
    assert.equal(events.length, 2);
  });

  it('keeps its connections for the runs that follow', async () => {
    await using agent = await openAgent((_, response) => response.end(DONE));
    for (let run = 0; run < 20; run += 1) assert.deepEqual(await drain(agent.run()), ['done']);
    // The next run may start while the answer before it has not quite ended.
    assert.ok(agent.connections() <= 2);
  });

  it('gives the result before the answer has ended', async () => {
    await using agent = await openAgent((_, response) => response.write(DONE));
    assert.deepEqual(await drain(agent.run()), ['done']);
  });

  const lies: [string, Answer][] = [
    ['an event that is no JSON', (_, response) => response.end('{oops\n')],
    ['an event that does not fit the protocol', (_, response) => response.end(line({ type: 'stdout', data: 7 }))],
    ['more values than an event has', (_, response) => response.end(`${'['.repeat(1 << 20)}\n`)],
    ['an interim answer', (_, response) => response.writeProcessing()],
    ['an end without done', (_, response) => response.end(line({ type: 'stdout', data: 'x' }))],
    ['an error body that is none', (_, response) => response.writeHead(500).end('{}')],
    ['an endless error body', (_, response) => response.writeHead(500).end('x'.repeat(100_000))],
  ];
  for (const [lie, answer] of lies) {
    it(`calls ${lie} misbehaviour`, async () => {
      await using agent = await openAgent(answer);
      await assert.rejects(drain(agent.run()), { name: 'AgentFault', kind: 'misbehaved' });
    });
  }

  it('reads a flood of events in slices that let others work', async () => {
    const empty = line({ type: 'stdout', data: '' }).repeat(1000);
    await using agent = await openAgent((request, response) => {
      const flood = (error?: Error | null) => {
        if (!error) response.write(empty, flood);
      };
      request.on('end', flood);
    });
    let events = 0;
    const abort = new AbortController();
    const flood = (async () => {
      for await (const _ of agent.run('x', abort.signal)) events += 1;
    })();
    let turns = 0;
    // What the flood would take without a rest is thousands of events for each turn of the loop.
    while (events < 10_000) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    abort.abort(new Error('enough'));
    await assert.rejects(flood, /enough/);
    assert.ok(events / turns < 100, `${events} events in ${turns} turns`);
  });

  it('calls a connection that breaks, or that there is not, gone', async () => {
    await using agent = await openAgent((_, response) => {
      response.write(line({ type: 'stdout', data: 'x' }), () => response.destroy());
    });
    await assert.rejects(drain(agent.run()), { name: 'AgentFault', kind: 'gone' });
    const nobody = new AgentHttpClient('/nonexistent/agent.sock');
    await assert.rejects(nobody.checkHealth(new AbortController().signal), { kind: 'gone' });
    await nobody.close();
  });

  it('passes on what the agent refuses with', async () => {
    await using agent = await openAgent((_, response) => {
      response.writeHead(404).end(JSON.stringify({ error: { code: 'not_found', message: 'no such context' } }));
    });
    await assert.rejects(drain(agent.run()), { kind: 'not_found' });
    await assert.rejects(agent.client.interrupt('cctx_1', new AbortController().signal), { kind: 'not_found' });
  });

  it('closes the connection when a run is aborted or left, and says why', async () => {
    let closed = 0;
    await using agent = await openAgent((_, response) => {
      response.on('close', () => {
        closed += 1;
      });
      response.write(line({ type: 'stdout', data: 'x' }));
    });
    const abort = new AbortController();
    await assert.rejects(
      async () => {
        for await (const _ of agent.run('x', abort.signal)) abort.abort(new Error('enough'));
      },
      { message: 'enough' },
    );
    for await (const _ of agent.run()) break;
    while (closed < 2) await new Promise((resolve) => setImmediate(resolve));
  });
});
