import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { EgressRig } from '../../testing/egress-rig.ts';
import { getRequest } from '../../testing/get-request.ts';
import { listening, portOf } from '../../testing/test-servers.ts';

const BODY = 'Content-Length: 5\r\n\r\nhello';
const SWITCH = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n';

/** Answers that a server must not send to a plain request. */
const BAD: Record<string, string> = {
  'the status 000': `HTTP/1.1 000 None\r\n${BODY}`,
  'the status 099': `HTTP/1.1 099 Early\r\n${BODY}`,
  'the status 600': `HTTP/1.1 600 Late\r\n${BODY}`,
  'the status 999': `HTTP/1.1 999 Denied\r\n${BODY}`,
  'a status of two digits': `HTTP/1.1 20 OK\r\n${BODY}`,
  'a status of four digits': `HTTP/1.1 2000 OK\r\n${BODY}`,
  'an upgrade that was not asked for': `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`,
  'a transfer coding that was not asked for': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'two lengths': `HTTP/1.1 200 OK\r\nContent-Length: 4\r\n${BODY}`,
  'a length and chunks': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n${BODY}`,
  'another version': `HTTP/3.0 200 OK\r\n${BODY}`,
};

let rig: EgressRig;
let plain: Server;
let secure: Server;
let answer = '';
const open = new Set<Socket>();

before(async () => {
  rig = await EgressRig.open({ mode: 'allowlist', hosts: ['allowed.example'] });
  rig.name('allowed.example');
  const serve = (socket: Socket) => {
    open.add(socket.on('error', () => {}));
    socket.once('close', () => open.delete(socket));
    socket.once('data', () => socket.end(answer, 'latin1'));
  };
  const { certificate: cert, key } = await rig.serverAuthority.issue({ kind: 'name', name: 'allowed.example' });
  plain = await listening(createServer(serve));
  secure = await listening(createTlsServer({ cert, key }, serve));
});
beforeEach(() => {
  rig.decisions.length = 0;
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const socket of open) socket.destroy();
  for (const server of [plain, secure]) server.close();
});

function to(server: Server, bytes: string): void {
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
  answer = bytes;
}

async function overHttp2(): Promise<number> {
  const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
  const client = connectHttp2('https://allowed.example', { createConnection: () => socket });
  try {
    const [head] = await once(client.request({ ':path': '/' }).resume(), 'response');
    return head[':status'];
  } finally {
    client.destroy();
  }
}

const upgrade = () => rig.send(`GET / HTTP/1.1\r\nHost: allowed.example\r\n${SWITCH}\r\n`);

describe('the answer of a server', () => {
  for (const [name, bytes] of Object.entries(BAD)) {
    test(`the answer of a server with ${name} is not passed on: the client gets 502`, async () => {
      to(plain, bytes);
      assert.match(await rig.send(getRequest('allowed.example')), /^HTTP\/1\.1 502 .*"code":"egress_failed"/s);
      to(secure, bytes);
      assert.equal(await overHttp2(), 502);
      assert.deepEqual(rig.failures, []);
    });
  }

  for (const status of [200, 299, 404, 599]) {
    test(`the answer of a server with the status ${status} is passed on`, async () => {
      to(plain, `HTTP/1.1 ${status} Some\r\n${BODY}`);
      assert.match(
        await rig.send(getRequest('allowed.example')),
        new RegExp(`^HTTP/1\\.1 ${status} Some\r\n.*hello$`, 's'),
      );
      to(secure, answer);
      assert.equal(await overHttp2(), status);
    });
  }

  test('the answer of a server with a bad status or another protocol does not upgrade either', async () => {
    for (const bytes of [
      `HTTP/1.1 600 Late\r\n${BODY}`,
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
    ]) {
      to(plain, bytes);
      assert.match(await upgrade(), /^HTTP\/1\.1 502 .*"reason":"bad_response"/s, bytes);
    }
    to(plain, 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nopen');
    assert.match(await upgrade(), /^HTTP\/1\.1 101 .*open$/s);
  });
});
