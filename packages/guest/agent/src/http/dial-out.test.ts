import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { DialOut } from './dial-out.ts';

describe('an agent that dials out', () => {
  let path: string;
  let host: Server;
  let taken: Socket[];
  let dialOut: DialOut;

  beforeEach(() => {
    path = join(mkdtempSync(join(tmpdir(), 'dial-')), 'agent.sock');
    taken = [];
    const server = createHttpServer((request, response) => response.end(`you asked for ${request.url}`));
    server.on('upgrade', async (_, socket, head) => {
      await once(socket.resume(), 'end');
      socket.end(`you said ${head}`);
    });
    dialOut = new DialOut(server, path);
  });

  afterEach(async () => {
    dialOut.stop();
    for (const socket of taken) socket.destroy();
    host.close();
    rmSync(join(path, '..'), { recursive: true });
  });

  async function listen(): Promise<void> {
    host = createServer((socket) => taken.push(socket.on('error', () => {})));
    await once(host.listen(path), 'listening');
  }

  async function nextConnection(): Promise<Socket> {
    const count = taken.length;
    await eventually(() => taken.length > count, { because: 'the agent dials again' });
    return taken[count] as Socket;
  }

  async function ask(socket: Socket): Promise<string> {
    const answer = once(socket, 'data');
    socket.write('GET /health HTTP/1.1\r\nHost: agent\r\n\r\n');
    return String((await answer)[0]);
  }

  test('an agent that dials out answers on its connections, several at once', async () => {
    await listen();
    dialOut.start();
    await eventually(() => taken.length === 8, { because: 'the agent has dialled' });
    const answers = await Promise.all(taken.map(ask));
    for (const answer of answers) assert.match(answer, /you asked for \/health/);
  });

  test('an agent that dials out opens another for each that is in use, and no more than it needs', async () => {
    await listen();
    dialOut.start();
    await eventually(() => taken.length === 8, { because: 'the agent has dialled' });
    const another = nextConnection();
    await ask(taken[0] as Socket);
    await ask(taken[0] as Socket);
    await another;
    assert.equal(taken.length, 9);
  });

  test('an agent that dials out opens them again when they end, and when no server listened', async () => {
    dialOut.start();
    await listen();
    const first = await nextConnection();
    first.destroy();
    assert.match(await ask(await nextConnection()), /you asked for/);
  });

  test('an agent that dials out goes on with its answer when the host has said all that it has to', async () => {
    await listen();
    dialOut.start();
    const connection = await nextConnection();
    connection.end('GET / HTTP/1.1\r\nHost: agent\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello');
    assert.equal(String(Buffer.concat(await connection.toArray())), 'you said hello');
  });

  test('an agent that dials out opens none any more once it is stopped', async () => {
    await listen();
    dialOut.start();
    await eventually(() => taken.length === 8, { because: 'the agent has dialled' });
    dialOut.stop();
    await Promise.all(taken.map((socket) => once(socket.resume(), 'close')));
    host.once('connection', () => assert.fail('it dialled'));
  });
});
