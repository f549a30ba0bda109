/** Tests how requests are balanced, by HAProxy itself with three small servers behind it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { findFreePort } from '@cloche/node-support';
import { eventually } from '@cloche/testkit/eventually';
import { BALANCER_PROGRAM, PER_ADDRESS, writeBalancerConfig } from './balancer-config.ts';

const NAMES = ['1', '2', '3'];
const skip = existsSync(BALANCER_PROGRAM) ? false : 'HAProxy is not installed';

interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
}

let runDir: string;
let port: number;
let haproxy: ChildProcess;
const servers = new Map<string, Server>();
/** What the servers answer to `/readyz`. */
let areReady = true;

/** Starts a server that answers each request and each WebSocket with its name. */
async function startServer(name: string): Promise<void> {
  const server = createServer(({ url }, response) => {
    const isReady = areReady || url !== '/readyz';
    response.writeHead(isReady ? 200 : 503, { 'x-server': name }).end(name);
  });
  server.on('upgrade', ({ headers }, socket) => {
    const accept = hash('sha1', `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64');
    const fields = [
      'connection: upgrade',
      'upgrade: websocket',
      `sec-websocket-accept: ${accept}`,
      `x-server: ${name}`,
    ];
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n${fields.join('\r\n')}\r\n\r\n`);
  });
  servers.set(name, server);
  server.listen(runPaths(runDir, name).apiSocket);
  await once(server, 'listening');
}

async function stopServer(name: string): Promise<void> {
  const server = servers.get(name);
  server?.closeAllConnections();
  server?.close();
  servers.delete(name);
  if (server) await once(server, 'close');
}

/** Returns the name of the server that answers. */
async function answeredBy({ path, method = 'GET', headers = {} }: Sent): Promise<string> {
  const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }).end();
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  if (answer.statusCode === 101) answer.socket.destroy();
  else assert.equal(answer.statusCode, 200, await text(answer));
  return answer.headers['x-server'];
}

/** Returns the names of the servers that answer, each once, in their order. */
async function serversOf(requests: readonly Sent[]): Promise<string[]> {
  const names = [];
  for (const each of requests) names.push(await answeredBy(each));
  return [...new Set(names)].sort();
}

const repeated = (sent: Sent) => Array.from({ length: 2 * NAMES.length }, () => sent);
const fileOf = (id: string): Sent => ({
  path: '/e2b-box/filesystem.Filesystem/Stat',
  headers: { 'e2b-sandbox-id': id },
});
const kernel = (id: string) => `cloche-jupyter-kernel-${id}-cctx_0ab`;
const WEB_SOCKET = {
  connection: 'upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
};

/** Every way in which a request names the sandbox whose state a server holds in memory. */
const NAMING: Readonly<Record<string, (id: string) => Sent>> = {
  'the header of E2B': fileOf,
  'the host of a port': (id) => ({ path: '/files', headers: { host: `3000-${id}.localhost:7070` } }),
  'the host of a port with a hyphen': (id) => ({
    path: '/',
    headers: { host: `3000-${id.replace('_', '-').toUpperCase()}.box.example.com` },
  }),
  'the WebSocket of a kernel': (id) => ({
    path: `/jupyter/api/kernels/${kernel(id)}/channels?session_id=one`,
    headers: WEB_SOCKET,
  }),
  'the path of a kernel': (id) => ({ path: `/jupyter/api/kernels/${kernel(id)}` }),
  'the interrupt of a kernel': (id) => ({ path: `/jupyter/api/kernels/${kernel(id)}/interrupt`, method: 'POST' }),
  'the end of a session': (id) => ({ path: `/jupyter/api/sessions/session-of-${kernel(id)}`, method: 'DELETE' }),
};

/** Requests whose state one server has in memory for all sandboxes. */
const AT_ONE_SERVER: Readonly<Record<string, Sent>> = {
  'a URL of a file that the client has signed': { path: '/files?path=a&signature=v1_x' },
  'the creation of a sandbox by E2B': { path: '/e2b/sandboxes', method: 'POST' },
  'the creation of a sandbox by E2B’s second version': { path: '/e2b/v2/sandboxes', method: 'POST' },
  'a connection to a sandbox by E2B': { path: '/e2b/v2/sandboxes/sbx_1/connect', method: 'POST' },
  'a list of sessions': { path: '/jupyter/api/sessions' },
  'a new session': { path: '/jupyter/api/sessions', method: 'POST' },
  'the name of a session': { path: `/jupyter/api/sessions/session-of-${kernel('sbx_1')}`, method: 'PATCH' },
};

/** A request whose answer is of one server. */
const metricsOf = (name: string): Sent => ({ path: `/metrics?server=${name}` });

const IN_TURN: Readonly<Record<string, Sent>> = {
  'a request of /v1': { path: '/v1/sandboxes/sbx_1/runs', method: 'POST' },
  'a request of /v1 with the header of E2B': { path: '/v1/sandboxes', headers: { 'e2b-sandbox-id': 'sbx_1' } },
  'a list of kernels': { path: '/jupyter/api/kernels' },
  'a template of E2B': { path: '/e2b/templates' },
  'a path that begins like that of signed URLs': { path: '/filesystem' },
  'metrics of any server': { path: '/metrics' },
  'metrics of a server that there is not': metricsOf('4'),
  'metrics of a preview': { ...metricsOf('1'), headers: { host: 'prv-1.localhost:7070' } },
  'a preview whose app has the path of signed URLs': { path: '/files', headers: { host: 'prv-1.localhost:7070' } },
  'a preview whose app is a Jupyter': {
    path: `/jupyter/api/kernels/${kernel('sbx_1')}`,
    headers: { host: 'PRV-1.box.example.com' },
  },
};

describe('the load balancer', { skip }, () => {
  before(async () => {
    runDir = mkdtempSync(join(tmpdir(), 'cloche-balancer-'));
    for (const folder of ['server', 'secrets']) mkdirSync(join(runDir, folder));
    port = await findFreePort('127.0.0.1');
    const file = writeBalancerConfig({ runDir, servedAt: { host: '0.0.0.0', port }, servers: NAMES.length });
    for (const name of NAMES) await startServer(name);
    haproxy = spawn(BALANCER_PROGRAM, ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] });
    const isReady = () =>
      answeredBy({ path: '/' }).then(
        () => true,
        () => false,
      );
    await eventually(isReady, { because: 'HAProxy listens' });
  });
  after(async () => {
    haproxy?.kill();
    if (haproxy) await once(haproxy, 'exit');
    for (const name of [...servers.keys()]) await stopServer(name);
    rmSync(runDir, { recursive: true });
  });

  for (const [name, sent] of Object.entries(NAMING)) {
    it(`the load balancer passes requests of a sandbox to one server: ${name}`, async () => {
      for (const id of ['sbx_0a', 'sbx_0b', 'sbx_0c', 'sbx_0d']) {
        assert.deepEqual(await serversOf([fileOf(id), ...repeated(sent(id))]), [await answeredBy(fileOf(id))]);
      }
    });
  }

  it('spreads sandboxes over all servers', async () => {
    const ids = Array.from({ length: 30 }, (_, index) => `sbx_${index}a`);
    assert.deepEqual(await serversOf(ids.map(fileOf)), NAMES);
  });

  for (const [name, sent] of Object.entries(AT_ONE_SERVER)) {
    it(`the load balancer passes what one server remembers to one server: ${name}`, async () => {
      const [one = {} as Sent] = Object.values(AT_ONE_SERVER);
      assert.equal((await serversOf([one, ...repeated(sent)])).length, 1);
    });
  }

  it('the load balancer closes connections of one address beyond its limit, and serves others', async (t) => {
    const own = Object.values(networkInterfaces())
      .flat()
      .find((each) => each?.family === 'IPv4' && !each.internal)?.address;
    if (own === undefined) return t.skip('this host has no address but those of the loopback');
    let closed = 0;
    const sockets = Array.from({ length: PER_ADDRESS + 8 }, () => {
      const socket = connect({ port, host: own }).on('error', () => undefined);
      return socket.once('close', () => closed++).resume();
    });
    await eventually(() => closed === 8, { because: 'the connections beyond the limit are closed' });
    assert.ok(NAMES.includes(await answeredBy({ path: '/' })));
    for (const socket of sockets) socket.destroy();
  });

  for (const [name, sent] of Object.entries(IN_TURN)) {
    it(`the load balancer gives each server its turn: ${name}`, async () => {
      assert.deepEqual(await serversOf(repeated(sent)), NAMES);
    });
  }

  it('the load balancer passes a request for the metrics of a server to that server', async () => {
    for (const name of NAMES) assert.deepEqual(await serversOf(repeated(metricsOf(name))), [name]);
  });

  it('the load balancer asks servers that are not ready whether they live, and for their metrics, but for nothing else', async () => {
    const unready = ['/readyz', '/v1/sandboxes', '/', '/mcp', '/healthz/x', '/metrics/x'];
    const isRefused = (path: string) =>
      answeredBy({ path }).then(
        () => false,
        () => true,
      );
    areReady = false;
    try {
      await eventually(() => isRefused('/'), { because: 'no server is ready' });
      for (const path of unready) assert.equal(await isRefused(path), true, path);
      for (const path of ['/healthz', '/healthz?verbose', '/metrics'])
        assert.deepEqual(await serversOf(repeated({ path })), NAMES, path);
      for (const name of NAMES) assert.deepEqual(await serversOf(repeated(metricsOf(name))), [name]);
      // The app of a preview is no server.
      for (const host of ['prv-1.localhost:7070', '3000-sbx-1a.localhost:7070'])
        await assert.rejects(answeredBy({ path: '/healthz', headers: { host } }), /"code":"unavailable"/);
      await stopServer('2');
      assert.deepEqual(await serversOf(repeated({ path: '/healthz' })), ['1', '3']);
      await startServer('2');
    } finally {
      areReady = true;
    }
    const areAllBack = () =>
      serversOf(repeated({ path: '/' })).then(
        (names) => names.length === NAMES.length,
        () => false,
      );
    await eventually(areAllBack, { because: 'all servers are ready again' });
  });

  it('the load balancer passes requests of a dead server to another one at once, which keeps them when that server is back', async () => {
    const [signed = {} as Sent] = Object.values(AT_ONE_SERVER);
    const ids = Array.from({ length: 12 }, (_, index) => `sbx_dead${index}`);
    const kept = [signed, ...ids.map(fileOf)];
    const place = async (sent: Sent) => (await serversOf(repeated(sent))).join();
    const earlier = await Promise.all(kept.map(place));
    const dead = earlier[0] ?? '';
    await stopServer(dead);

    const meanwhile = await Promise.all(kept.map(place));
    for (const [index, name] of meanwhile.entries()) {
      assert.ok(name !== dead && NAMES.includes(name), name);
      // The sandboxes of the servers that live stay where they are.
      if (earlier[index] !== dead) assert.equal(name, earlier[index]);
    }
    await startServer(dead);
    const isBack = async () => (await serversOf(repeated({ path: '/' }))).includes(dead);
    await eventually(isBack, { because: 'the server has its turn again' });
    assert.deepEqual(await Promise.all(kept.map(place)), meanwhile);
  });
});
