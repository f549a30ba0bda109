import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { eventually, settled } from '@cloche/testkit/eventually';
import { dialer } from '../agent-client/agent-endpoint.ts';
import { AgentHttpFiles } from '../agent-client/http/agent-http-files.ts';
import { AgentTransport } from '../agent-client/http/agent-transport.ts';
import { LentBytes } from './lent-bytes.ts';

const BYTES = randomBytes(6_000_001);
const never = new AbortController().signal;

/** Starts an agent that announces all of `BYTES` in the head of its response and then calls `answer`. */
async function openAgent(answer: (response: ServerResponse) => void) {
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  const socketPath = join(folder, 'agent.sock');
  const sockets = new Set<Socket>();
  const server = createServer((_, response) => {
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-length': BYTES.length, etag: '"1"' });
    answer(response);
  }).on('connection', (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const transport = new AgentTransport(dialer({ unix: socketPath }));
  const files = new AgentHttpFiles(transport);
  return {
    sockets,
    async read(signal: AbortSignal = never) {
      const { body } = await files.read('a', {}, signal);
      assert.ok(body instanceof LentBytes);
      return body;
    },
    async [Symbol.asyncDispose]() {
      await transport.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

/** Copies each piece and returns it to the lender a little later. */
async function borrow(body: LentBytes): Promise<Buffer> {
  const copies: Buffer[] = [];
  await body.lend((bytes, giveBack) => {
    setImmediate(() => {
      copies.push(Buffer.from(bytes));
      giveBack();
    });
  });
  await new Promise((resolve) => setImmediate(resolve));
  return Buffer.concat(copies);
}

describe('the body of a large file', () => {
  it('the body of a large file comes whole and in order, lent or read, however it was sent', async () => {
    const inPieces = (response: ServerResponse) => {
      let at = 0;
      const next = () => {
        const size = 1 + ((at * 7) % 300_000);
        const piece = BYTES.subarray(at, at + size);
        at += size;
        if (at >= BYTES.length) response.end(piece);
        else response.write(piece, () => setImmediate(next));
      };
      next();
    };
    for (const send of [inPieces, (response: ServerResponse) => response.end(BYTES)]) {
      await using agent = await openAgent(send);
      assert.ok((await borrow(await agent.read())).equals(BYTES));
      assert.ok((await buffer(await agent.read())).equals(BYTES));
    }
  });

  it('the body of a large file is read no further while its pieces are out', async () => {
    await using agent = await openAgent((response) => response.end(BYTES));
    const body = await agent.read();
    const out: (() => void)[] = [];
    let lent = 0;
    const lending = body.lend((bytes, giveBack) => {
      lent += bytes.length;
      out.push(giveBack);
    });
    await eventually(() => out.length > 0, { because: 'the first piece is lent' });
    await settled(() => lent, { forMs: 50 });
    assert.ok(lent < BYTES.length / 2, `${lent} bytes`);
    const givenBack = () => {
      for (const giveBack of out.splice(0)) giveBack();
      return lent === BYTES.length;
    };
    await eventually(givenBack, { because: 'every piece is lent' });
    await lending;
    assert.equal(lent, BYTES.length);
  });

  it('the body of a large file fails when the agent breaks off, and takes nothing beyond what was announced', async () => {
    await using short = await openAgent((response) => {
      response.write(BYTES.subarray(0, 2_000_000), () => response.destroy());
    });
    await assert.rejects(borrow(await short.read()));
    await assert.rejects(buffer(await short.read()));
    await using long = await openAgent((response) => {
      response.write(BYTES, () => response.socket?.write(BYTES));
    });
    assert.ok((await borrow(await long.read())).equals(BYTES));
  });

  it('the body of a large file takes its connection along when it ends, is left or aborted', async () => {
    await using agent = await openAgent((response) => response.write(BYTES.subarray(0, 3_000_000)));
    (await agent.read()).destroy();
    const abort = new AbortController();
    const abandon = new AbortController();
    const body = await agent.read(abort.signal);
    const lent = borrow(body);
    abort.abort(new Error('enough'));
    await assert.rejects(lent);
    const unread = await agent.read(abandon.signal);
    abandon.abort(new Error('left'));
    await eventually(() => unread.closed, { because: 'the body is closed' });
    await eventually(() => [...agent.sockets].every((socket) => socket.closed), { because: 'the connections close' });
    assert.equal(agent.sockets.size, 3);
  });
});
