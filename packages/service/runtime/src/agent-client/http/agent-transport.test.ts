import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { PORT_TUNNEL_PROTOCOL } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { dialer } from '../agent-endpoint.ts';
import { AgentTransport } from './agent-transport.ts';

/** Runs `act` with an agent that sends `bytes` to each tunnel request, and then closes the connection or waits. */
async function withAgent(
  bytes: string,
  ends: boolean,
  act: (socketPath: string, agents: ReadonlySet<Socket>) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.once('data', () => (ends ? socket.end(bytes) : socket.write(bytes)));
  });
  const socketPath = join(folder, 'agent.sock');
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  try {
    await act(socketPath, sockets);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
    rmSync(folder, { recursive: true });
  }
}

const open = (socketPath: string, signal: AbortSignal) =>
  new AgentTransport(dialer({ unix: socketPath })).upgrade('/ports/80', PORT_TUNNEL_PROTOCOL, signal);
const soon = () => AbortSignal.timeout(60_000);
const json = (status: number, body: object) => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 ${status} X\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};

describe('a body from an agent', () => {
  it('a body from an agent in chunks of one byte is read over many turns of the event loop', async () => {
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
    const count = 30_000;
    await withAgent(`${head}${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`, false, async (socketPath) => {
      const transport = new AgentTransport(dialer({ unix: socketPath }));
      const { body } = await transport.open('contexts', { method: 'GET', path: '/' }, soon());
      const perTurn: number[] = [0];
      let isTurning = false;
      for await (const chunk of body) {
        perTurn.push((perTurn.pop() ?? 0) + chunk.length);
        if (isTurning) continue;
        isTurning = true;
        setImmediate(() => {
          isTurning = false;
          perTurn.push(0);
        });
      }
      assert.equal(
        perTurn.reduce((sum, bytes) => sum + bytes),
        count,
      );
      // One read of 64 KiB holds more than ten thousand.
      assert.ok(Math.max(...perTurn) < 1_000, `${Math.max(...perTurn)} in one turn`);
      await transport.close();
    });
  });
});

describe('opening a tunnel', () => {
  it('opening a tunnel gives what comes after the 101, also in one piece with it', async () => {
    const head = 'HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: cloche-tunnel\r\n\r\n';
    await withAgent(`${head}first words`, true, async (socketPath) => {
      const tunnel = await open(socketPath, soon());
      assert.equal(Buffer.concat(await tunnel.toArray()).toString(), 'first words');
    });
  });

  it('opening a tunnel tells a closed port from an agent that breaks the protocol', async () => {
    const fault = (code: string) => json(409, { error: { code, message: 'x' } });
    const answers: [bytes: string, kind: string][] = [
      [fault('port_closed'), 'port_closed'],
      [fault('queue_full'), 'busy'],
      [fault('whatever'), 'internal'],
      [json(200, { ok: true }), 'misbehaved'],
      [`HTTP/1.1 500 X\r\n\r\n${'x'.repeat(100_000)}`, 'misbehaved'],
      [`HTTP/1.1 101 S\r\nX: ${'x'.repeat(8000)}\r\n\r\n`, 'misbehaved'],
      ['SSH-2.0\r\n', 'misbehaved'],
      ['', 'gone'],
    ];
    for (const [bytes, kind] of answers) {
      await withAgent(bytes, true, async (socketPath) => {
        await assert.rejects(open(socketPath, soon()), { kind }, bytes.slice(0, 60));
      });
    }
    await assert.rejects(open('/nonexistent/agent.sock', soon()), { kind: 'gone' });
  });

  it('ends with its signal when the agent says nothing, or never stops', async () => {
    for (const bytes of ['', 'HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\nhalf']) {
      await withAgent(bytes, false, async (socketPath) => {
        const abort = new AbortController();
        const opening = open(socketPath, abort.signal);
        setImmediate(() => abort.abort(new Error('long enough')));
        await assert.rejects(opening, /long enough/);
      });
    }
  });

  it('opening a tunnel gives a connection whose failure ends nothing else', async () => {
    const head = 'HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: cloche-tunnel\r\n\r\n';
    await withAgent(head, false, async (socketPath, agents) => {
      const tunnel = await open(socketPath, soon());
      for (const agent of agents) agent.destroy();
      tunnel.write('x');
      await eventually(() => tunnel.destroyed, { because: 'the connection has failed' });
    });
  });

  it('opening a tunnel gives a connection that ends with the transport, also if no caller ends it', async () => {
    const head = 'HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: cloche-tunnel\r\n\r\n';
    await withAgent(head, false, async (socketPath) => {
      const transport = new AgentTransport(dialer({ unix: socketPath }));
      const tunnel = await transport.upgrade('/ports/80', PORT_TUNNEL_PROTOCOL, soon());
      const closed = once(tunnel, 'close');
      await transport.close();
      await closed;
    });
  });
});
