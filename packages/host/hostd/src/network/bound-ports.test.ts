import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { boundPortsAt } from './bound-ports.ts';

for (const [where, address, seenAt] of [
  ['one address', '127.0.0.2', ['127.0.0.2']],
  ['every address', '0.0.0.0', ['127.0.0.2', '198.18.0.1']],
  ['every address of both kinds', '::', ['127.0.0.2', '198.18.0.1']],
] as const) {
  test(`a program that listens on ${where} holds its port there`, async () => {
    const server = createServer().listen(0, address);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    for (const asked of seenAt) assert.equal(boundPortsAt(asked, [port]).length, 1, asked);
    if (address === '127.0.0.2') assert.deepEqual(boundPortsAt('127.0.0.3', [port]), []);
    server.close();
    await once(server, 'close');
    assert.deepEqual(boundPortsAt('127.0.0.2', [port]), []);
  });
}

test('a program that receives datagrams uses its port', async () => {
  const socket = createSocket('udp4').bind(0, '127.0.0.2');
  await once(socket, 'listening');
  const { port } = socket.address();
  assert.deepEqual(boundPortsAt('127.0.0.2', [port]), [{ address: '127.0.0.2', port }]);
  socket.close();
});

test("a client's connection does not use the port that it connects from", async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const { connect } = await import('node:net');
  const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  await once(socket, 'connect');
  assert.deepEqual(boundPortsAt('127.0.0.2', [socket.localPort ?? 0]), []);
  socket.destroy();
  server.close();
});
