/** Tests that the client trusts no response of an agent about files, and no missing one. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { eventually, settled } from '@cloche/testkit/eventually';
import { LentBytes } from '../../bytes/lent-bytes.ts';
import { FileError } from '../../driver/agent-files.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import { dialer } from '../agent-endpoint.ts';
import { AgentHttpFiles } from './agent-http-files.ts';
import { AgentTransport } from './agent-transport.ts';

const never = new AbortController().signal;
const FILE = {
  path: '/a',
  name: 'a',
  type: 'file',
  sizeBytes: 1,
  mode: 0o644,
  uid: 1,
  gid: 1,
  modifiedMs: 0,
  etag: '"1"',
};

async function serve(server: Server) {
  const folder = mkdtempSync(join(tmpdir(), 'lying-'));
  const socketPath = join(folder, 'agent.sock');
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const transport = new AgentTransport(dialer({ unix: socketPath }));
  const files = new AgentHttpFiles(transport);
  return {
    files,
    sockets,
    async [Symbol.asyncDispose]() {
      await transport.close();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

/** Starts a server that calls `say` with each connection after its first data. */
const openLiar = (say: (socket: Socket) => void) =>
  serve(createServer((socket) => socket.once('data', () => say(socket))));

function answer(lines: readonly string[], body = ''): string {
  return `HTTP/1.1 ${lines.join('\r\n')}\r\n\r\n${body}`;
}

const source = () => ({ open: () => Readable.from([Buffer.from('bytes')]) });

/** Each operation of the client. */
const QUESTIONS: Readonly<Record<string, (files: AgentHttpFiles, signal: AbortSignal) => Promise<unknown>>> = {
  read: async (files, signal) => buffer((await files.read('a', {}, signal)).body),
  write: (files, signal) => files.write('a', source(), {}, signal),
  list: (files, signal) => Array.fromAsync(files.list('a', { depth: 1, limit: 10 }, signal)),
  stat: (files, signal) => files.stat('a', signal),
  unpack: (files, signal) => files.unarchive('a', source(), signal),
  watch: async (files, signal) => {
    for await (const _ of await files.watch('a', { recursive: false }, signal));
  },
};

async function assertFaults(say: (socket: Socket) => void, names = Object.keys(QUESTIONS)): Promise<void> {
  for (const name of names) {
    await using liar = await openLiar(say);
    await assert.rejects(async () => QUESTIONS[name]?.(liar.files, never), AgentError, name);
  }
}

describe('an agent that lies about files', () => {
  it('an agent that lies about files with garbage is found out', async () => {
    await assertFaults((socket) => socket.end(randomBytes(1000)));
    await assertFaults((socket) => socket.end());
  });

  it('an agent that lies about files with headers without end is given up', async () => {
    await assertFaults((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const more = () => {
        while (!socket.destroyed && socket.write(`x-more: ${'x'.repeat(1000)}\r\n`));
      };
      socket.on('drain', more);
      more();
    });
  });

  it('an agent that lies about files with an answer of another kind misbehaves', async () => {
    const asked = ['write', 'list', 'stat', 'unpack', 'watch'];
    for (const body of ['{}', '[', '"x"', 'null', JSON.stringify({ ...FILE, uid: 'root' })]) {
      await assertFaults((socket) => socket.end(answer(['200 OK', `content-length: ${body.length}`], body)), asked);
      await assertFaults((socket) => socket.end(answer(['409 No', `content-length: ${body.length}`], body)), asked);
    }
  });

  it('an agent that lies about files with an answer without end is read no further', async () => {
    await assertFaults(
      (socket) => {
        socket.write(answer(['200 OK', 'connection: close']));
        const more = () => {
          while (!socket.destroyed && socket.write('x'.repeat(10_000)));
        };
        socket.on('drain', more);
        more();
      },
      ['write', 'list', 'stat', 'unpack', 'watch'],
    );
    const lines = `${JSON.stringify(FILE)}\n`.repeat(11);
    await assertFaults((socket) => socket.end(answer(['200 OK', 'connection: close'], lines)), ['list']);
  });

  it('an agent that lies about files with lengths that are wrong is found out', async () => {
    const text = JSON.stringify(FILE);
    const short = (socket: Socket) => socket.end(answer(['200 OK', `content-length: ${text.length + 1}`], text));
    await assertFaults(short, ['write', 'stat']);
    for (const length of ['-1', '1e3', '99999999999999999999', '5, 6']) {
      await assertFaults((socket) => socket.end(answer(['200 OK', `content-length: ${length}`], 'bytes')), ['read']);
    }
    for (const size of [10, 2_000_000]) {
      await using liar = await openLiar((socket) => socket.end(answer(['200 OK', `content-length: ${size}`], 'short')));
      const { body } = await liar.files.read('a', {}, never);
      await assert.rejects(buffer(body), `${size} bytes`);
    }
  });

  it('an agent that lies about files with headers of a file that do not fit together misbehaves', async () => {
    const heads = [
      ['200 OK'],
      ['206 Part', 'content-length: 1'],
      ['200 OK', 'content-length: 1', 'content-range: bytes 0-0/1'],
      ['206 Part', 'content-length: 1', 'content-range: 0-0'],
      ['200 OK', 'content-length: 1', 'etag: "<x>"'],
    ];
    for (const head of heads) {
      await using liar = await openLiar((socket) => socket.end(answer([...head, 'connection: close'], 'x')));
      await assert.rejects(liar.files.read('a', {}, never), { kind: 'misbehaved' }, head.join(', '));
    }
  });

  it('an agent that lies about files and asks twice for the bytes is given them once at most', async () => {
    let opened = 0;
    const counted = {
      open: () => {
        opened += 1;
        return source().open();
      },
    };
    await using liar = await openLiar((socket) => socket.write(answer(['100 Continue']).repeat(3)));
    await assert.rejects(liar.files.write('a', counted, {}, never), AgentError);
    assert.ok(opened <= 1);
  });

  it('or says nothing at all is waited for as long as the signal allows, and let go', async () => {
    for (const [name, ask] of Object.entries(QUESTIONS)) {
      const abort = new AbortController();
      await using liar = await openLiar(() => abort.abort(new Error('long enough')));
      await assert.rejects(ask(liar.files, abort.signal), /long enough/, name);
      for (const socket of liar.sockets) {
        socket.resume();
        await eventually(() => socket.destroyed || socket.readableEnded, { because: 'the connection ends' });
      }
    }
  });
});

describe('bytes that are lent to an agent', () => {
  const BYTES = randomBytes(3_000_000);

  /** Returns a body that lends pieces of one buffer, which it reuses as soon as a piece has been returned. */
  function lent(state: { closed?: boolean; out?: number }): LentBytes {
    const piece = Buffer.alloc(100_000);
    return new LentBytes({
      async lend(take) {
        for (let at = 0; at < BYTES.length && !state.closed; at += piece.length) {
          BYTES.copy(piece, 0, at);
          state.out = at + piece.length;
          await new Promise<void>((back) => take(piece.subarray(0, BYTES.length - at), back));
        }
      },
      close() {
        state.closed = true;
      },
    });
  }

  it('arrive whole, each piece before its memory is used again', async () => {
    let arrived = Buffer.alloc(0);
    const server = createHttpServer().on('checkContinue', async (request, response) => {
      response.writeContinue();
      arrived = await buffer(request);
      response.end(JSON.stringify(FILE));
    });
    await using agent = await serve(server);
    await agent.files.write('a', { sizeBytes: BYTES.length, open: () => lent({}) }, {}, never);
    assert.ok(arrived.equals(BYTES));
  });

  it('bytes that are lent to an agent are lent no further to one that reads none, and taken back when it is left', async () => {
    const state: { closed?: boolean; out?: number } = {};
    const abort = new AbortController();
    await using liar = await openLiar((socket) => {
      socket.pause();
      socket.write(answer(['100 Continue']));
    });
    const writing = liar.files.write('a', { sizeBytes: BYTES.length, open: () => lent(state) }, {}, abort.signal);
    await eventually(() => state.out !== undefined, { because: 'the first piece is lent' });
    const out = await settled(() => state.out ?? 0, { forMs: 50 });
    assert.ok(out < BYTES.length / 2, `${out} bytes are out`);
    abort.abort(new Error('left'));
    await assert.rejects(writing, /left/);
    assert.equal(state.closed, true);
  });
});

describe('a listing', () => {
  const long = `${JSON.stringify({ ...FILE, path: `/${'x'.repeat(4000)}` })}\n`;
  const openListing = (lines: number) =>
    openLiar((socket) => socket.end(answer(['200 OK', 'connection: close'], long.repeat(lines))));

  it('a listing of more bytes than one may have is refused, and its sandbox is not blamed', async () => {
    await using agent = await openListing(Math.ceil(LIMITS.fileListBytes / long.length) + 1);
    const listing = Array.fromAsync(agent.files.list('a', { depth: 1, limit: LIMITS.fileListEntries }, never));
    await assert.rejects(listing, (error) => error instanceof FileError && error.kind === 'too_many');
  });

  it('a listing is read no further than it is taken', async () => {
    const written = { bytes: 0 };
    await using agent = await openLiar((socket) => {
      socket.write(answer(['200 OK', 'connection: close'], ''));
      // Room of the connection and of the two sides' buffers.
      const more = () => {
        while (!socket.destroyed && written.bytes < 16e6 && socket.write(long)) written.bytes += long.length;
      };
      socket.on('drain', more);
      more();
    });
    for await (const file of agent.files.list('a', { depth: 1, limit: LIMITS.fileListEntries }, never)) {
      assert.equal(file.path.length, 4001);
      await new Promise((resolve) => setTimeout(resolve, 100));
      break;
    }
    assert.ok(written.bytes < 4e6, `${written.bytes} bytes were taken for one entry`);
  });
});

describe('the files of one sandbox', () => {
  it('the files of one sandbox have 32 watches at a time, of both users together, and room again when one ends', async () => {
    await using agent = await serve(createHttpServer((_request, response) => response.writeHead(200).flushHeaders()));
    const abort = new AbortController();
    const root = agent.files.as('root');
    for (let count = 0; count < 32; count += 1) {
      const files = count % 2 === 0 ? agent.files : root;
      await files.watch('.', { recursive: false }, count === 0 ? abort.signal : never);
    }
    await assert.rejects(root.watch('.', { recursive: false }, never), { kind: 'busy' });
    await assert.rejects(agent.files.watch('.', { recursive: false }, never), { kind: 'busy' });
    abort.abort();
    const again = () =>
      root.watch('.', { recursive: false }, never).then(
        () => true,
        () => false,
      );
    await eventually(again, { because: 'the watch that was ended makes room' });
  });

  it('the files of one sandbox have 80 transfers at a time, of both users together', async () => {
    await using agent = await serve(createHttpServer(() => undefined));
    const abort = new AbortController();
    const reads = Array.from({ length: 80 }, (_, count) =>
      agent.files.as(count % 2 === 0 ? 'user' : 'root').read('.', {}, abort.signal),
    );
    const ended = Promise.allSettled(reads);
    await assert.rejects(agent.files.as('root').read('.', {}, never), { kind: 'busy' });
    await assert.rejects(agent.files.archive('.', 'tar', never), { kind: 'busy' });
    abort.abort();
    await ended;
  });
});
