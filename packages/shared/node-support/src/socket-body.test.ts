import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { GuardedServer } from './guarded-server.ts';
import { type BodySink, SocketBody } from './socket-body.ts';

/** Lines, so that a server that paces chunks holds most of a read back. */
const BYTES = Buffer.from(randomBytes(3_200_000).toString('hex').replace(/.{8}/g, '$&\r\n').slice(0, 5_000_001));
const HEAD = `PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: ${BYTES.length}\r\n\r\n`;
const turn = () => new Promise((resolve) => setImmediate(resolve));

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly client: Socket;
  /** Returns everything that the client has received. */
  answer(): string;
}

/** Sends the head of a request and `first`. */
async function ask(
  first: Buffer,
  act: (asked: Asked) => Promise<void>,
  where: string | 0 = 0,
  server: Server = createServer(),
): Promise<void> {
  server.listen(where);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = typeof where === 'string' ? connect(where) : connect(port, '127.0.0.1');
  client.on('error', () => undefined);
  let text = '';
  client.on('data', (chunk) => {
    text += chunk;
  });
  try {
    client.write(Buffer.concat([Buffer.from(HEAD), first]));
    const [request, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
    // Let the server read the bytes that arrived with the head.
    await turn();
    assert.ok(SocketBody.isPossible(request));
    await act({ request, response, client, answer: () => text });
  } finally {
    client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** A sink that keeps the bytes; `holds` pauses it. */
class Keeper implements BodySink {
  readonly parts: Buffer[] = [];
  failure: Error | undefined;
  holds = false;
  // Small, so that there are many reads. New memory after each read, as a sink that writes asynchronously needs it.
  #memory = Buffer.alloc(50_000);

  buffer(): Buffer {
    return this.#memory;
  }

  take(bytes: Buffer): boolean {
    this.parts.push(bytes);
    this.#memory = Buffer.alloc(50_000);
    return !this.holds;
  }

  fail(error: Error): void {
    this.failure = error;
  }

  get length(): number {
    return this.parts.reduce((sum, part) => sum + part.length, 0);
  }

  get bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

const untilAll = (keeper: Keeper) =>
  eventually(() => keeper.length >= BYTES.length, { because: 'the whole body is read' });

describe('a body that is read directly', () => {
  it('a body that is read directly comes whole and in order, by the network and by a Unix socket, however it was sent', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'direct-'));
    const guarded = () => new GuardedServer({}, { serve: () => undefined, report: assert.ifError });
    const places = [0, join(folder, 'socket')] as const;
    for (const [open, where] of [createServer, guarded].flatMap((open) =>
      places.map((where) => [open, where] as const),
    )) {
      for (const firstBytes of [0, 1, 200_000, BYTES.length]) {
        const sent = async ({ request, response, client, answer }: Asked) => {
          const keeper = new Keeper();
          new SocketBody(request, response, keeper);
          client.write(BYTES.subarray(firstBytes));
          await untilAll(keeper);
          assert.ok(keeper.bytes.equals(BYTES), `${firstBytes} bytes first`);
          response.end('taken');
          await once(client, 'close');
          assert.match(answer(), /^HTTP\/1.1 200 .*connection: close.*taken/is);
        };
        await ask(BYTES.subarray(0, firstBytes), sent, where, open());
      }
    }
    rmSync(folder, { recursive: true });
  });

  it('a body that is read directly has nothing of what follows it', async () => {
    await ask(BYTES, async ({ request, response, client }) => {
      const keeper = new Keeper();
      client.write('GET /next HTTP/1.1\r\n\r\n');
      new SocketBody(request, response, keeper);
      await untilAll(keeper);
      response.end();
      await once(client, 'close');
      assert.ok(keeper.bytes.equals(BYTES));
      assert.equal(keeper.failure, undefined);
    });
  });

  it('a body that is read directly waits while its sink holds', async () => {
    await ask(Buffer.alloc(0), async ({ request, response, client }) => {
      const keeper = new Keeper();
      keeper.holds = true;
      const body = new SocketBody(request, response, keeper);
      client.write(BYTES);
      for (let before = 0; before < BYTES.length; before = keeper.length) {
        await eventually(() => keeper.length > before, { because: 'the next part is read' });
        for (let turns = 0; turns < 20; turns += 1) await turn();
        assert.ok(keeper.length - before <= 50_000, 'one read at a time');
        body.resume();
      }
      assert.ok(keeper.bytes.equals(BYTES));
    });
  });

  it('a body that is read directly may be refused in mid-way: the answer arrives though its client goes on to send', async () => {
    await ask(BYTES.subarray(0, 2_000_000), async ({ request, response, client, answer }) => {
      const keeper = new Keeper();
      new SocketBody(request, response, keeper);
      await eventually(() => keeper.parts.length > 0, { because: 'the first part is read' });
      response.writeHead(507).end('no room');
      await eventually(() => answer().includes('no room'), { because: 'the refusal arrives' });
      const kept = keeper.parts.length;
      assert.equal(client.destroyed, false);
      client.write(BYTES.subarray(2_000_000));
      await once(client, 'close');
      assert.ok(keeper.parts.length <= kept + 1, 'what came after the refusal was dropped');
    });
  });

  it('a body that is read directly fails when its sender goes away, or half of it', async () => {
    for (const leave of ['destroy', 'end'] as const) {
      await ask(BYTES.subarray(0, 2_000_000), async ({ request, response, client }) => {
        const keeper = new Keeper();
        new SocketBody(request, response, keeper);
        await eventually(() => keeper.parts.length > 0, { because: 'the first part is read' });
        client[leave]();
        await eventually(() => keeper.failure !== undefined, { because: 'the body fails' });
        await eventually(() => response.closed, { because: 'the response is closed' });
      });
    }
  });

  it('a body that is read directly counts as movement: a time that its connection has begins again with each read', async () => {
    await ask(Buffer.alloc(0), async ({ request, response, client }) => {
      const keeper = new Keeper();
      new SocketBody(request, response, keeper);
      response.setTimeout(800);
      const began = performance.now();
      while (performance.now() - began < 1_600) {
        client.write(BYTES.subarray(0, 1000));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.equal(keeper.failure, undefined);
      await eventually(() => keeper.failure !== undefined, { because: 'the body fails' });
    });
  });
});

it('small bodies, and those of unknown length, are left to the HTTP server', async () => {
  const headers = [{}, { 'content-length': '1000' }];
  for (const each of headers) assert.equal(SocketBody.isPossible({ headers: each } as IncomingMessage), false);
});
