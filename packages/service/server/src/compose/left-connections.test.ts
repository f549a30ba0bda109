import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { openPreviewWorld, type PreviewWorld, SWITCH } from '../../testing/previews.ts';

const ALL_PROTOCOLS = { CLOCHE_E2B: 'on', CLOCHE_JUPYTER: 'on', CLOCHE_MCP: 'on', CLOCHE_RUN_APIS: 'dify' };
/** Routers without WebSockets: their answers to upgrades are those to ordinary requests, and leave the connection open. */
const ORDINARY = new Set(['MCP', 'an API of one program']);
const TRIES = 20;
const PLAIN = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
const CONNECT = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n';

let world: PreviewWorld;
/** An upgrade without a key, by the router that serves it. */
let upgrades: ReadonlyMap<string, string>;

before(async () => {
  world = await openPreviewWorld(ALL_PROTOCOLS);
  const { host } = await world.open();
  const domain = host.slice(host.indexOf('.') + 1);
  const upgrade = (path: string, to = 'x') => `GET ${path} HTTP/1.1\r\nHost: ${to}\r\n${SWITCH}\r\n`;
  upgrades = new Map([
    ['the API', upgrade(`/v1/sandboxes/${world.sandboxId}/pty`)],
    ['a path that does not exist', upgrade('/nothing')],
    ['a preview', upgrade('/', host)],
    ['a preview that does not exist', upgrade('/', `prv-none.${domain}`)],
    ['a port of E2B', upgrade('/', `8000-${world.sandboxId.replace('_', '-')}.${domain}`)],
    ['the API of E2B', upgrade('/e2b/x')],
    ['a sandbox of E2B', upgrade('/e2b-box/x')],
    ['signed files of E2B', upgrade('/files')],
    ['Jupyter', upgrade('/jupyter/api/kernels/x/channels')],
    ['MCP', upgrade('/mcp')],
    ['an API of one program', upgrade('/dify/v1/sandbox/run')],
    ['CONNECT', CONNECT],
  ]);
});
after(() => world.close());

/** Sockets of this process, both ends of each connection. */
function openSockets(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

function leaving(): (readonly [string, string])[] {
  return [...upgrades].filter(([router]) => !ORDINARY.has(router));
}

async function connected(): Promise<Socket> {
  const socket = world.connect();
  await once(socket, 'connect');
  return socket;
}

/** Fails if a neighbour was disturbed, and lets failures of the attack show themselves first. */
async function isServing(): Promise<void> {
  const answer = await world.ask('x', { path: '/healthz' });
  assert.equal(answer.status, 200);
}

/** Asks each router and waits until no more sockets are open than before. */
async function ofEachRouter(attack: (bytes: string) => Promise<unknown>): Promise<void> {
  await isServing();
  const before = openSockets();
  for (const [router, bytes] of upgrades) {
    for (let count = 0; count < TRIES; count += 1) await attack(bytes);
    await isServing();
    await eventually(() => openSockets() <= before, { because: `the sockets of ${router} are given back` });
  }
}

describe('a connection that leaves HTTP', () => {
  it('a connection that leaves HTTP behind an unanswered request ends alone', async () => {
    await ofEachRouter(async (bytes) => {
      const socket = await connected();
      socket.end(PLAIN + bytes);
      await once(socket.resume(), 'close');
    });
  });

  it('a connection that leaves HTTP whose client resets it ends alone', async () => {
    await ofEachRouter(async (bytes) => {
      const socket = await connected();
      socket.write(bytes);
      await new Promise(setImmediate);
      socket.resetAndDestroy();
    });
  });

  it('a connection that leaves HTTP is given back although the client sends a byte after the answer and closes only its own side', async () => {
    await ofEachRouter(async (bytes) => {
      const socket = await connected();
      socket.write(bytes);
      await once(socket, 'data');
      socket.end('x');
      await once(socket.resume(), 'close');
    });
  });

  it('a connection that leaves HTTP is given back although the client sends a byte and stays', async () => {
    const before = openSockets();
    const sockets = await Promise.all(leaving().map(() => connected()));
    for (const [at, socket] of sockets.entries()) {
      socket.allowHalfOpen = true;
      socket.write(`${leaving()[at]?.[1]}x`);
    }
    await Promise.all(sockets.map((socket) => once(socket.resume(), 'end')));
    const own = sockets.length;
    await eventually(() => openSockets() <= before + own, { because: 'only the ends of the clients are left' });
    for (const socket of sockets) socket.destroy();
  });

  it('a connection that leaves HTTP is answered as an ordinary request would be', async () => {
    for (const [router, bytes] of leaving()) {
      const socket = await connected();
      socket.write(bytes);
      const [answer] = await once(socket, 'data');
      socket.destroy();
      assert.match(`${answer}`, /^HTTP\/1\.1 4\d\d \w.*\r\n(.+\r\n)*content-length: \d+/i, router);
    }
  });
});

describe('a terminal', () => {
  const pty = (path: string, fields: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${world.key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${fields}\r\n`;
  const path = () => `/v1/sandboxes/${world.sandboxId}/pty`;
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
  const version = 'Sec-WebSocket-Version: 13\r\n';
  const opened: PassThrough[] = [];
  let opening: (() => Promise<unknown>) | undefined;
  before(() => {
    // The fake has no terminals. These echo, and stay open until the server closes them.
    Object.assign(world.agent.commands, {
      openTerminal: async () => {
        await opening?.();
        const terminal = new PassThrough();
        opened.push(terminal);
        return terminal;
      },
    });
  });

  it('a terminal is not opened for a handshake that is not in order, which is refused as JSON', async () => {
    for (const [fields, named] of [
      ['', /sec-websocket-version/],
      [key, /sec-websocket-version/],
      [`${key}Sec-WebSocket-Version: 99\r\n`, /sec-websocket-version/],
      [version, /sec-websocket-key/],
      [`${version}Sec-WebSocket-Key: short\r\n`, /sec-websocket-key/],
    ] as const) {
      const socket = await connected();
      socket.write(pty(path(), fields));
      const answer = await text(socket);
      assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_request"/);
      assert.match(answer, named);
      assert.equal(opened.length, 0);
    }
  });

  it('a terminal is closed when its client has left before it was open', async () => {
    const before = openSockets();
    const socket = await connected();
    opening = async () => {
      socket.resetAndDestroy();
      await eventually(() => openSockets() <= before, { because: 'both ends of the connection have closed' });
    };
    socket.write(pty(path(), version + key));
    await once(socket, 'close');
    await eventually(() => opened.length === 1, { because: 'the terminal is open' });
    await isServing();
    await eventually(() => opened.every(({ destroyed }) => destroyed), { because: 'no terminal is left open' });
  });
});

describe('pipelined requests of a client that does not read', () => {
  it('open as many descriptors as the limit of a connection at most', async () => {
    const before = readdirSync('/proc/self/fd').length;
    const socket = await connected();
    socket.pause();
    socket.write('GET /docs/static/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(400));
    let most = 0;
    for (let count = 0; count < 50; count += 1) {
      await isServing();
      most = Math.max(most, readdirSync('/proc/self/fd').length);
    }
    assert.ok(most - before < 40, `${most - before} more descriptors`);
    socket.destroy();
  });

  it('pipelined requests of a client that does not read are answered up to the limit of a connection, which then closes', async () => {
    const socket = await connected();
    socket.write(PLAIN.repeat(40));
    const answers = (await text(socket)).match(/HTTP\/1\.1 200 /g) ?? [];
    assert.equal(answers.length, 16);
  });
});

it('a request behind a refused upload, which waits behind an answer that closes the connection, is not served', async () => {
  const upload = `/v1/sandboxes/${world.sandboxId}/files/content?path=x HTTP/1.1\r\nHost: x\r\n`;
  const socket = await connected();
  socket.write(`POST ${upload}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n`);
  socket.write(`PUT ${upload}Content-Length: 1\r\n\r\n`);
  const [first] = (await once(socket, 'data')) as [Buffer];
  assert.match(first.toString(), /^HTTP\/1\.1 4\d\d [\s\S]*\r\nconnection: close\r\n/i);
  // The end of the upload, with which closing was put off.
  socket.write(`x${PLAIN}`);
  assert.equal(await text(socket), '');
  await isServing();
});
