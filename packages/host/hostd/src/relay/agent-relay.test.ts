import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { needsRoot } from '@cloche/testkit/needs-root';
import { until } from '../base/until.ts';
import { openListeningSocket } from '../linux/listening-socket.ts';
import { AgentRelay, MAX_HALF_OPEN, MAX_IDLE, MAX_WAITING } from './agent-relay.ts';

/** Bytes that a Unix socket buffers for its reader. */
const SOCKET_BYTES = Number(readFileSync('/proc/sys/net/core/wmem_default', 'utf8'));
const HALF_OPEN = { allowHalfOpen: true };
const ROOT = { uid: 0, gid: 0 };

describe('a relay', { skip: needsRoot }, () => {
  let folder: string;
  let relay: AgentRelay;
  let sockets: Socket[];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-'));
    sockets = [];
    relay = new AgentRelay({
      outside: openListeningSocket(join(folder, 'outside'), ROOT),
      inside: openListeningSocket(join(folder, 'inside'), ROOT),
    });
  });

  afterEach(() => {
    relay.close();
    for (const socket of sockets) socket.destroy();
    rmSync(folder, { recursive: true });
  });

  async function open(side: 'outside' | 'inside', options = {}): Promise<Socket> {
    const socket = connect({ path: join(folder, side), ...options }).on('error', () => {});
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  }

  async function openMany(side: 'outside' | 'inside', count: number): Promise<Socket[]> {
    return Promise.all(Array.from({ length: count }, () => open(side)));
  }

  async function read(socket: Socket): Promise<string> {
    const [bytes] = await once(socket, 'data');
    return String(bytes);
  }

  async function everything(socket: Socket): Promise<string> {
    const chunks: Buffer[] = [];
    await once(
      socket.on('data', (chunk) => chunks.push(Buffer.from(chunk))),
      'end',
    );
    return String(Buffer.concat(chunks));
  }

  test('a relay joins the server to the guest, whichever connects first', async () => {
    for (const order of [
      ['outside', 'inside'],
      ['inside', 'outside'],
    ] as const) {
      const pair = { [order[0]]: await open(order[0]), [order[1]]: await open(order[1]) } as Record<string, Socket>;
      pair.outside?.write('question');
      assert.equal(await read(pair.inside as Socket), 'question');
      pair.inside?.write('answer');
      assert.equal(await read(pair.outside as Socket), 'answer');
    }
  });

  test('delivers everything that was sent before the end to a slow reader', async () => {
    const [server, guest] = [await open('outside'), await open('inside')];
    // Exceeds the kernel's buffer by less than the relay's: the relay sees the end while it still holds the last bytes.
    server.pause();
    const said = Buffer.alloc(SOCKET_BYTES + 100_000, 'cloche');
    guest.end(said);
    for (let turn = 0; turn < 1000; turn++) await nextTurn();
    const heard = Buffer.concat(await server.toArray());
    assert.ok(heard.equals(said), `${heard.length} bytes of ${said.length} arrived`);
  });

  test('a relay keeps one direction open when the other has ended', async () => {
    for (const ending of ['outside', 'inside'] as const) {
      const [server, guest] = [await open('outside', HALF_OPEN), await open('inside', HALF_OPEN)];
      const [first, last] = ending === 'outside' ? [server, guest] : [guest, server];
      const [heard, answer] = [everything(last), everything(first)];
      first.end('the whole of it');
      assert.equal(await heard, 'the whole of it');
      last.end('the answer');
      assert.equal(await answer, 'the answer');
    }
  });

  test('a relay limits the connections that the server has ended and the guest has not', async () => {
    const guests: Socket[] = [];
    for (let index = 0; index < MAX_HALF_OPEN + 5; index += 1) {
      const [server, guest] = [await open('outside'), await open('inside', HALF_OPEN)];
      server.write('x');
      await read(guest);
      const ended = once(guest.resume(), 'end');
      server.end();
      server.destroy();
      await ended;
      guests.push(guest);
    }
    const isBroken = (guest: Socket) => new Promise((resolve) => guest.write('x', (error) => resolve(error != null)));
    assert.deepEqual(await Promise.all(guests.slice(0, 5).map(isBroken)), [true, true, true, true, true]);
    assert.equal(await isBroken(guests.at(-1) as Socket), false);
  });

  test('a relay gives each connection of the server its own connection to the guest', async () => {
    const servers = await openMany('outside', 5);
    const guests = await openMany('inside', 5);
    for (const [index, server] of servers.entries()) server.write(`${index}`);
    const received = await Promise.all(guests.map(read));
    assert.deepEqual(received.sort(), ['0', '1', '2', '3', '4']);
  });

  test('a relay closes one side when the other closes', async () => {
    for (const ending of ['outside', 'inside'] as const) {
      const [server, guest] = [await open('outside'), await open('inside')];
      server.write('x');
      await read(guest);
      const [gone, told] = ending === 'outside' ? [server, guest] : [guest, server];
      const closed = once(told.resume(), 'close');
      gone.destroy();
      await closed;
    }
  });

  test('a relay never joins two connections of a guest', async () => {
    const guests = await openMany('inside', 2);
    const heard: string[] = [];
    for (const guest of guests) guest.on('data', (bytes) => heard.push(String(bytes)));
    for (const guest of guests) guest.write('to whom?');
    const server = await open('outside');
    assert.equal(await read(server), 'to whom?');
    assert.deepEqual(heard, []);
  });

  test('a relay skips a connection that the guest has closed', async () => {
    const early = await open('inside');
    early.destroy();
    await once(early, 'close');
    const guest = await open('inside');
    const server = await open('outside');
    server.write('x');
    assert.equal(await read(guest), 'x');
  });

  test("a relay closes a guest's connections beyond the limit, and keeps serving", async () => {
    const guests = await openMany('inside', MAX_IDLE + 20);
    for (const guest of guests) guest.resume();
    await until('the rest is closed', () => guests.filter((guest) => !guest.closed).length === MAX_IDLE);
    const server = await open('outside');
    server.write('x');
    await Promise.race(guests.filter((guest) => !guest.closed).map((guest) => once(guest, 'data')));
  });

  test("a relay closes the server's connections beyond their limit", async () => {
    const servers = await openMany('outside', MAX_WAITING + 5);
    for (const server of servers) server.resume();
    await until('the rest is closed', () => servers.filter((server) => !server.closed).length === MAX_WAITING);
  });

  test('a relay reads no more from a guest than the server accepts', async () => {
    const [server, guest] = [await open('outside'), await open('inside')];
    let sent = 0;
    const chunk = Buffer.alloc(1 << 20);
    // The server reads nothing, so the guest soon cannot write any more.
    while (sent < 64 && guest.write(chunk, () => undefined)) sent += 1;
    assert.ok(guest.writableLength > 0);
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(sent < 64);
    assert.equal(server.bytesRead < 4 << 20, true);
  });
});
