/** Limits on what one sandbox can take of egress' resources. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import { type Duplex, pipeline, Readable, Writable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { eventually, settled } from '@cloche/testkit/eventually';
import { EgressRig, SANDBOX_ADDRESS } from '../../testing/egress-rig.ts';
import { getRequest } from '../../testing/get-request.ts';
import { httpServer, httpsServer, listening, portOf } from '../../testing/test-servers.ts';

const OFFERED_BYTES = 1024 * 1024 * 1024;
/**
 * Upper limit of what is buffered: kernel buffers of sockets, of which those to a server grow to 6 MB, and egress'
 * own.
 */
const MOST_HELD_BYTES = 48 * 1024 * 1024;
/** How long a figure has not changed when it counts as settled. */
const STILL = { forMs: 500 };
const CHUNK = Buffer.alloc(64 * 1024);
const OTHER_ADDRESS = '127.0.9.2';
const POLICY = { mode: 'allowlist' as const, hosts: ['allowed.example'] };

let rig: EgressRig;
let web: Server;
let secureWeb: Server;
/** Bytes that servers have sent, and bytes that they have read. */
let givenBytes = 0;
let takenBytes = 0;
/** Servers stop reading until this is settled. */
let reading = Promise.resolve();

before(async () => {
  rig = await EgressRig.open(POLICY);
  rig.name('allowed.example');
  const serve: Parameters<typeof httpServer>[0] = (request, response) => {
    if (request.method === 'PUT') return void pipeline(request, slowSink(), () => response.end('taken'));
    if (request.url === '/short') return void response.end('short');
    pipeline(Readable.from(chunks()), response, () => {});
  };
  web = await httpServer(serve);
  web.on('upgrade', (_request, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    pipeline(Readable.from(chunks()), socket, () => {});
  });
  secureWeb = await httpsServer(rig.serverAuthority, 'allowed.example', serve);
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const server of [web, secureWeb]) {
    server.closeAllConnections();
    server.close();
  }
});

function* chunks(): Generator<Buffer> {
  for (givenBytes = 0; givenBytes < OFFERED_BYTES; givenBytes += CHUNK.length) yield CHUNK;
}

function slowSink(): Writable {
  takenBytes = 0;
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      takenBytes += chunk.length;
      void reading.then(() => done());
    },
  });
}

function to(server: Server): void {
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
}

const GET = 'GET / HTTP/1.1\r\nHost: allowed.example\r\n';
const UPGRADE = `${GET}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;

/** Functions that begin a download which the client does not read. */
const DOWNLOADS: Record<string, () => Promise<Duplex>> = {
  HTTP: async () => {
    to(web);
    const socket = rig.connect();
    socket.write(`${GET}\r\n`);
    return socket.pause();
  },
  'HTTPS in HTTP/1.1': async () => {
    to(secureWeb);
    const socket = await rig.connectTls({ servername: 'allowed.example' });
    socket.write(`${GET}\r\n`);
    return socket.pause();
  },
  'HTTPS in HTTP/2': async () => {
    to(secureWeb);
    const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
    const session = connectHttp2('https://allowed.example', { createConnection: () => socket });
    const stream = session.on('error', () => {}).request({ ':path': '/' });
    return stream.on('error', () => {}).once('close', () => session.destroy());
  },
  'a WebSocket': async () => {
    to(web);
    const socket = rig.connect();
    socket.write(UPGRADE);
    return socket.pause();
  },
};

describe('of a body that its reader does not take, egress holds little', () => {
  for (const [how, begin] of Object.entries(DOWNLOADS)) {
    test(`downloaded by ${how}`, async () => {
      givenBytes = 0;
      const stream = await begin();
      await eventually(() => givenBytes > 0, { within: 60_000, because: 'the gateway takes the first bytes' });
      const held = await settled(() => givenBytes, STILL);
      assert.ok(held <= MOST_HELD_BYTES, `${held} bytes`);
      // The download continues once it is read. To save time, only more than could have been buffered is awaited.
      stream.resume();
      await eventually(() => givenBytes >= held + 2 * MOST_HELD_BYTES, {
        within: 60_000,
        because: 'the gateway takes more once its reader reads',
      });
      stream.destroy();
    });
  }

  test('uploaded', async () => {
    const gate = Promise.withResolvers<void>();
    reading = gate.promise;
    to(web);
    const socket = rig.connect();
    socket.write(`PUT / HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: ${OFFERED_BYTES}\r\n\r\n`);
    pipeline(Readable.from(chunks()), socket, () => {});
    const held = await settled(() => givenBytes, STILL);
    assert.ok(held <= MOST_HELD_BYTES, `${held} bytes`);
    gate.resolve();
    await eventually(() => takenBytes >= held + 2 * MOST_HELD_BYTES, {
      within: 60_000,
      because: 'the gateway takes more once its reader reads',
    });
    socket.destroy();
  });
});

describe('a sandbox that opens connections and says nothing', () => {
  const ALLOWED = 256;
  const REQUEST = 'GET /short HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n';

  test('a sandbox that opens connections and says nothing has no more than 256, takes none from other sandboxes, and has new ones once they end', async () => {
    to(web);
    rig.egress.sandboxes.put(OTHER_ADDRESS, { sandboxId: 'sbx_other', policy: POLICY });
    rig.egress.sandboxes.delete(SANDBOX_ADDRESS);
    rig.setPolicy(POLICY);
    const idle = Array.from({ length: ALLOWED }, () => rig.connect());
    await Promise.all(idle.map((socket) => once(socket, 'connect')));
    // Half of them look like requests that never end.
    for (const socket of idle.slice(ALLOWED / 2)) socket.write('GET / HTTP/1.1\r\nHost: allowed.example\r\nX-Slow: ');

    assert.equal(await rig.send(REQUEST), '');
    assert.match(await rig.send(REQUEST, rig.connect(OTHER_ADDRESS)), /^HTTP\/1\.1 200 .*short$/s);

    const [one] = idle;
    one?.destroy();
    let answer = '';
    for (let attempt = 0; attempt < 100 && answer === ''; attempt++) answer = await rig.send(REQUEST);
    assert.match(answer, /^HTTP\/1\.1 200 .*short$/s);
    for (const socket of idle) socket.destroy();
  });
});

test('a sandbox that asks for much at once does not have others wait for all of it', async () => {
  const MANY = 200;
  const request = 'GET /short HTTP/1.1\r\nHost: allowed.example\r\n\r\n';
  to(web);
  rig.egress.sandboxes.put(OTHER_ADDRESS, { sandboxId: 'sbx_other', policy: POLICY });
  await eventually(() => rig.egress.sandboxes.connectionCount === 0, {
    within: 60_000,
    because: 'the connections end',
  });
  const flood = Array.from({ length: MANY }, () => rig.connect());
  const other = rig.connect(OTHER_ADDRESS);
  await eventually(() => rig.egress.sandboxes.connectionCount > MANY, {
    within: 60_000,
    because: 'the connections are open',
  });
  let answered = 0;
  for (const socket of flood) {
    socket.once('data', () => {
      answered += 1;
    });
    socket.write(request);
  }
  other.write(request);
  await once(other, 'data');
  assert.ok(answered <= MANY / 4, `after ${answered} of ${MANY}`);
  await eventually(() => answered >= MANY, { within: 60_000, because: 'every request is answered' });
  for (const socket of [...flood, other]) socket.destroy();
});

test('a server that sends interim answers without end fails the one request', async () => {
  const hinting = createServer((socket) => {
    socket.on('error', () => {}).resume();
    const hint = () => {
      if (!socket.destroyed) socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', () => setImmediate(hint));
    };
    hint();
  });
  await listening(hinting);
  rig.destination = { address: '203.0.113.7', port: portOf(hinting) };
  assert.match(await rig.send(getRequest('allowed.example')), /^HTTP\/1\.1 502 .*"reason":"bad_response"/s);
  hinting.close();
});
