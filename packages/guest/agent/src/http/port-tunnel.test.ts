import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer, type Server } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { serveUpgrades } from '../wire/upgrades.ts';
import { openPortTunnel } from './port-tunnel.ts';

describe('a tunnel to a port', () => {
  let agent: Server;

  beforeEach(async () => {
    agent = createHttpServer();
    serveUpgrades(agent, { 'cloche-tunnel': openPortTunnel });
    await once(agent.listen(0, '127.0.0.1'), 'listening');
  });
  afterEach(() => {
    agent.close();
  });

  const portOf = (server: Server | ReturnType<typeof createServer>) => (server.address() as AddressInfo).port;

  async function ask(path: string, protocol = 'cloche-tunnel', more = ''): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port: portOf(agent), allowHalfOpen: true });
    socket.write(`GET ${path} HTTP/1.1\r\nHost: agent\r\nConnection: upgrade\r\nUpgrade: ${protocol}\r\n\r\n${more}`);
    return socket;
  }

  async function answerOf(socket: Socket): Promise<string> {
    return Buffer.concat(await socket.toArray()).toString();
  }

  it('a tunnel to a port carries what came with the request, and each end by itself', async () => {
    const app = createServer({ allowHalfOpen: true }, async (socket) => {
      let all = '';
      for await (const chunk of socket.iterator({ destroyOnReturn: false })) all += chunk;
      socket.end(`got ${all}`);
    });
    await once(app.listen(0, '127.0.0.1'), 'listening');
    const socket = await ask(`/ports/${portOf(app)}`, 'cloche-tunnel', 'early ');
    socket.end('and late');
    const answer = await answerOf(socket);
    app.close();
    assert.match(answer, /^HTTP\/1\.1 101 /);
    assert.equal(answer.split('\r\n\r\n')[1], 'got early and late');
  });

  it('a tunnel to a port ends both connections when one breaks', async () => {
    const inner = Promise.withResolvers<Socket>();
    const app = createServer((socket) => inner.resolve(socket.on('error', () => undefined)));
    await once(app.listen(0, '127.0.0.1'), 'listening');
    const outer = await ask(`/ports/${portOf(app)}`);
    await once(outer, 'data');
    outer.resetAndDestroy();
    const socket = await inner.promise;
    if (!socket.destroyed) await once(socket.resume(), 'close');
    app.close();
  });

  it('a tunnel to a port refuses a port without a listener, an invalid port, and other protocols', async () => {
    const app = createServer();
    await once(app.listen(0, '127.0.0.1'), 'listening');
    const closed = portOf(app);
    app.close();
    assert.match(await answerOf(await ask(`/ports/${closed}`)), /^HTTP\/1\.1 409 .*"port_closed"/s);
    for (const path of ['/ports/0', '/ports/65536', '/ports/x', '/ports/']) {
      assert.match(await answerOf(await ask(path)), /^HTTP\/1\.1 400 .*"bad_request"/s, path);
    }
    assert.match(await answerOf(await ask('/ports/80', 'other')), /^HTTP\/1\.1 404 .*"not_found"/s);
  });
});
