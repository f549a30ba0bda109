import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { describe, it } from 'node:test';
import { inRanges } from '@cloche/settings';
import { eventually } from '@cloche/testkit/eventually';
import { type ConnectionLimits, limitConnections } from './connection-limits.ts';

async function serve(limits: ConnectionLimits) {
  const server = createServer((_, response) => response.end('ok'));
  limitConnections(server, limits);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  return {
    /** Opens a connection and resolves with whether it receives a response. */
    async open(): Promise<boolean> {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      sockets.push(socket);
      socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
      return Promise.race([once(socket, 'data').then(() => true), once(socket, 'close').then(() => false)]);
    },
    closeFirst() {
      const [first] = sockets.splice(0, 1);
      first?.destroy();
    },
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('connections', () => {
  it('connections of one address are closed beyond its bound, and taken again when some have ended', async () => {
    using server = await serve({ perAddress: 2, isExempt: () => false });
    assert.deepEqual([await server.open(), await server.open(), await server.open()], [true, true, false]);
    server.closeFirst();
    await eventually(() => server.open(), { because: 'the server has seen the end' });
  });

  it('connections of one IPv6 network are counted together, as one host has all of its addresses', () => {
    const server = createServer();
    limitConnections(server, { perAddress: 2 });
    const closed = ['2001:db8::1', '2001:db8::2', '2001:db8:0:0:1::', '2001:db8:0:1::1'].map((remoteAddress) => {
      const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress });
      server.emit('connection', socket);
      return socket.destroyed;
    });
    assert.deepEqual(closed, [false, false, true, false]);
  });

  it('connections of this host, as of a proxy, are not counted by address', async () => {
    using server = await serve({ perAddress: 1 });
    assert.deepEqual([await server.open(), await server.open()], [true, true]);
  });

  it('connections of a trusted proxy are not counted by address', async () => {
    using server = await serve({ perAddress: 1, isExempt: inRanges(['127.0.0.0/8']) });
    assert.deepEqual([await server.open(), await server.open()], [true, true]);
  });

  it('connections of all are closed beyond their bound', async () => {
    using server = await serve({ inAll: 2 });
    assert.deepEqual([await server.open(), await server.open(), await server.open()], [true, true, false]);
  });
});
