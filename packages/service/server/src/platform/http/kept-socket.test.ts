/** Servers that follow each other on one listening socket, which a service manager keeps, under requests. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { BOOTSTRAP_KEY } from '../../../testing/bootstrap-key.ts';
import { keptSocketFd } from './kept-socket.ts';

const PATIENCE_MS = 60_000;

/** A service manager with one server, whose socket it keeps. */
async function openManager() {
  const folder = mkdtempSync(join(tmpdir(), 'kept-'));
  const server = [process.execPath, join(import.meta.dirname, '../../main.ts')];
  const program = join(import.meta.dirname, '../../../testing/keep-socket.py');
  const manager: ChildProcess = spawn('python3', [program, ...server], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      ...process.env,
      CLOCHE_DATA_DIR: join(folder, 'data'),
      CLOCHE_RUN_DIR: join(folder, 'run'),
      CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
      CLOCHE_LOG_LEVEL: 'warn',
    },
  });
  assert.ok(manager.stdin && manager.stdout);
  const lines = createInterface({ input: manager.stdout });
  const said: string[] = [];
  lines.on('line', (line) => said.push(line));
  const next = async (prefix: string) => {
    const find = () => said.find((line) => line.startsWith(prefix));
    await eventually(() => find() !== undefined, { within: PATIENCE_MS, because: `the manager says ${prefix}` });
    return find() ?? '';
  };
  const port = Number(await next(''));
  let pid = 0;
  return {
    port,
    /** Starts the server. Requests wait for it in the socket. */
    async start() {
      const before = said.length;
      manager.stdin?.write('start\n');
      await eventually(() => said.slice(before).some((line) => line.startsWith('started')), {
        within: PATIENCE_MS,
        because: 'the server is started',
      });
      pid = Number(said.findLast((line) => line.startsWith('started'))?.split(' ')[1]);
    },
    /** Ends the server as a service manager does. Resolves with its exit code. */
    async stop(): Promise<number> {
      process.kill(pid, 'SIGTERM');
      return Number((await next(`ended ${pid} `)).split(' ')[2]);
    },
    async [Symbol.asyncDispose]() {
      const exit = once(manager, 'exit');
      manager.stdin?.end();
      await exit;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Connections that a request was sent on. */
const used = new WeakSet<Socket>();

interface Answer {
  readonly status: number | undefined;
  readonly wasKept: boolean;
}

/** Sends a request, and again if a kept connection was closed before the answer, as HTTP clients do (RFC 9112, 9.3.1). */
async function get(port: number, path: string, agent: Agent): Promise<Answer> {
  for (;;) {
    const sent = request({ port, path, agent, headers: { authorization: `Bearer ${BOOTSTRAP_KEY}` } }).end();
    let wasKept = false;
    sent.once('socket', (socket) => {
      wasKept = used.has(socket);
      used.add(socket);
    });
    try {
      const [response] = await once(sent, 'response');
      await response.resume().toArray();
      return { status: response.statusCode, wasKept };
    } catch (error) {
      if (!(wasKept && (error as NodeJS.ErrnoException).code === 'ECONNRESET')) throw error;
    }
  }
}

describe('a socket that the service manager keeps', () => {
  it('a socket that the service manager keeps loses no request while one server follows another', async () => {
    await using manager = await openManager();
    await manager.start();
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const answers: Answer[] = [];
    const over = new AbortController();
    const client = async () => {
      while (!over.signal.aborted) answers.push(await get(manager.port, '/v1/sandboxes', agent));
    };
    const clients = Array.from({ length: 8 }, client);
    const all = Promise.all(clients);
    all.catch(() => over.abort());
    const growsBy = async (count: number) => {
      const before = answers.length;
      await eventually(() => answers.length > before + count, {
        within: PATIENCE_MS,
        because: 'requests are answered',
      });
    };
    try {
      await growsBy(100);
      for (let restart = 0; restart < 2; restart += 1) {
        assert.equal(await manager.stop(), 0);
        await manager.start();
        await growsBy(100);
      }
      over.abort();
      await all;
    } finally {
      over.abort();
      agent.destroy();
      await Promise.allSettled(clients);
    }
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    assert.ok(answers.some(({ wasKept }) => wasKept));
  });

  it('a socket that the service manager keeps is taken by the process that it was passed to, and alone', () => {
    assert.equal(keptSocketFd({ LISTEN_FDS: '1', LISTEN_PID: '7' }, 7), 3);
    assert.equal(keptSocketFd({ LISTEN_FDS: '1', LISTEN_PID: '8' }, 7), undefined);
    assert.equal(keptSocketFd({}, 7), undefined);
    assert.throws(() => keptSocketFd({ LISTEN_FDS: '2', LISTEN_PID: '7' }, 7), /2 sockets/);
  });
});
