/** Limits on what one sandbox may have in progress over all connections, and fairness between sandboxes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import type { Socket } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { eventually, settled } from '@cloche/testkit/eventually';
import { EgressRig, SANDBOX_ADDRESS } from '../../testing/egress-rig.ts';
import { httpServer, httpsServer, portOf } from '../../testing/test-servers.ts';
import { egressShares } from '../shares/egress-shares.ts';
import { FairShare } from '../shares/fair-share.ts';

const MAX_REQUESTS = 256;
const MAX_PENDING_REQUESTS = 512;
const MAX_HTTP2_SESSIONS = 32;
const OTHER_ADDRESS = '127.0.9.2';
const POLICY = { mode: 'allowlist' as const, hosts: ['allowed.example'] };
const GET = 'GET /slow HTTP/1.1\r\nHost: allowed.example\r\n\r\n';
const SHORT = 'GET /short HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n';

let rig: EgressRig;
let web: Server;
let secureWeb: Server;
/** Requests that the servers have not answered. */
const open = new Set<ServerResponse | Socket>();

before(async () => {
  const serve: Parameters<typeof httpServer>[0] = (request, response) => {
    if (request.url === '/short') return void response.end('short');
    open.add(response);
    response.once('close', () => open.delete(response));
  };
  const shares = { ...egressShares(), connections: new FairShare({ total: 300, perSource: 256 }) };
  rig = await EgressRig.open(POLICY, { shares });
  rig.name('allowed.example');
  web = await httpServer(serve);
  web.on('upgrade', (_request, socket: Socket) => {
    open.add(socket.on('error', () => {}).resume());
    socket.once('end', () => socket.destroy());
    socket.once('close', () => open.delete(socket));
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
  });
  secureWeb = await httpsServer(rig.serverAuthority, 'allowed.example', serve);
});
beforeEach(async () => {
  for (const address of [SANDBOX_ADDRESS, OTHER_ADDRESS]) {
    rig.egress.sandboxes.delete(address);
    rig.egress.sandboxes.put(address, { sandboxId: `sbx_${address}`, policy: POLICY });
  }
  await eventually(() => open.size === 0 && rig.egress.sandboxes.connectionCount === 0, {
    because: 'the connections of the test before end',
  });
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const server of [web, secureWeb]) {
    server.closeAllConnections();
    server.close();
  }
});

/** Resolves with the number of requests open at the servers, once there are `expected` and it no longer changes. */
async function mostOpen(expected: number): Promise<number> {
  await eventually(() => open.size >= expected, { because: 'the requests arrive' });
  return settled(() => open.size, { forMs: 500 });
}

/** Answers each open request once: Node emits an error for a second end, which would end this file. */
function answerOpen(): void {
  for (const response of open) {
    open.delete(response);
    response.end('late');
  }
}

function to(server: Server): void {
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
}

async function neighbourIsAnswered(): Promise<void> {
  to(web);
  assert.match(await rig.send(SHORT, rig.connect(OTHER_ADDRESS)), /^HTTP\/1\.1 200 .*short$/s);
}

async function http2Session(): Promise<ClientHttp2Session> {
  to(secureWeb);
  const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2', 'http/1.1'] });
  const session = connectHttp2('https://allowed.example', { createConnection: () => socket });
  await once(
    session.on('error', () => {}),
    'remoteSettings',
  );
  return session;
}

describe('a sandbox has at most 256 requests at once', () => {
  test('as streams of a few connections; the rest waits, and is answered', async () => {
    const sessions = await Promise.all(Array.from({ length: 4 }, http2Session));
    let answered = 0;
    for (const session of sessions) {
      for (let stream = 0; stream < 100; stream += 1) {
        session
          .request({ ':path': '/slow' })
          .on('error', () => {})
          .on('response', () => {
            answered += 1;
          });
      }
    }
    assert.equal(await mostOpen(MAX_REQUESTS), MAX_REQUESTS);
    await neighbourIsAnswered();
    const isAnswered = () => {
      answerOpen();
      return answered === 400;
    };
    await eventually(isAnswered, { because: 'every request is answered' });
    for (const session of sessions) session.destroy();
  });

  test('a sandbox has at most 256 requests at once and 512 with those that wait; further streams are refused, for the client to ask again', async () => {
    const sessions = await Promise.all(Array.from({ length: 6 }, http2Session));
    const refused: number[] = [];
    for (const session of sessions) {
      for (let stream = 0; stream < 100; stream += 1) {
        const asked = session.request({ ':path': '/slow' });
        asked.on('error', () => refused.push(asked.rstCode));
      }
    }
    await eventually(() => refused.length === 600 - MAX_PENDING_REQUESTS, { because: 'the rest is refused' });
    assert.deepEqual(new Set(refused), new Set([constants.NGHTTP2_REFUSED_STREAM]));
    for (const session of sessions) session.destroy();
  });

  test('a sandbox has at most 256 requests at once with WebSockets among them', async () => {
    const upgrade = GET.replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    to(web);
    const sockets = Array.from({ length: 200 }, () => rig.connect());
    for (const socket of sockets) socket.write(upgrade);
    await eventually(() => open.size === 200, { because: 'the WebSockets are open' });
    const session = await http2Session();
    for (let stream = 0; stream < 100; stream += 1) session.request({ ':path': '/slow' }).on('error', () => {});
    assert.equal(await mostOpen(MAX_REQUESTS), MAX_REQUESTS);
    await neighbourIsAnswered();
    session.destroy();
    for (const socket of sockets) socket.destroy();
  });

  test('a sandbox has at most 256 requests at once and forgets those that its clients give up before they begin', async () => {
    const [holding, fickle] = [await http2Session(), await http2Session()];
    const more = await http2Session();
    for (const session of [holding, more]) {
      for (let stream = 0; stream < 100; stream += 1) session.request({ ':path': '/slow' }).on('error', () => {});
    }
    for (let round = 0; round < 5; round += 1) {
      const streams = Array.from({ length: 90 }, () => fickle.request({ ':path': '/slow' }).on('error', () => {}));
      // Some streams have begun by then and some wait.
      await delay(50);
      for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
      await Promise.all(streams.map((stream) => stream.closed || once(stream, 'close')));
    }
    await eventually(() => open.size === 200, { because: 'the requests of the other connections are open' });
    for (const session of [holding, more, fickle]) session.destroy();
  });
});

describe('a sandbox that pipelines requests', () => {
  test('a sandbox that pipelines requests has one of each connection under way, and is answered in order', async () => {
    to(web);
    const socket = rig.connect();
    socket.write(GET.repeat(10));
    assert.equal(await mostOpen(1), 1);
    let answers = '';
    socket.on('data', (data) => {
      answers += data;
    });
    const isAnswered = () => {
      answerOpen();
      return answers.split('late').length === 11;
    };
    await eventually(isAnswered, { because: 'every request is answered' });
    socket.destroy();
  });

  test('a sandbox that pipelines requests without end loses the connection', async () => {
    to(web);
    const flood = Array.from({ length: 8 }, () => rig.connect());
    for (const socket of flood) socket.write('GET / HTTP/1.1\r\n\r\n'.repeat(3600));
    await Promise.all(flood.map((socket) => rig.readAll(socket)));
    await neighbourIsAnswered();
  });

  test('a sandbox that pipelines requests has nothing read behind a request that was refused', async () => {
    to(web);
    const answer = await rig.send(GET.replace('allowed', 'other') + SHORT);
    assert.match(answer, /^HTTP\/1\.1 403 /);
    assert.doesNotMatch(answer, /short/);
  });
});

test('a client beyond 32 connections of HTTP/2 speaks HTTP/1.1', async () => {
  to(secureWeb);
  const offer = { servername: 'allowed.example', ALPNProtocols: ['h2', 'http/1.1'] };
  const spoken = async (sockets: TLSSocket[]) => Map.groupBy(sockets, (socket) => socket.alpnProtocol);
  const sockets = await Promise.all(Array.from({ length: MAX_HTTP2_SESSIONS + 8 }, () => rig.connectTls(offer)));
  const counts = await spoken(sockets);
  assert.deepEqual([counts.get('h2')?.length, counts.get('http/1.1')?.length], [MAX_HTTP2_SESSIONS, 8]);
  const [plain] = counts.get('http/1.1') ?? [];
  assert.match(await rig.send(SHORT, plain), /^HTTP\/1\.1 200 /);
  counts.get('h2')?.[0]?.destroy();
  const speaksHttp2 = async () => {
    sockets.push(await rig.connectTls(offer));
    return sockets.at(-1)?.alpnProtocol === 'h2';
  };
  await eventually(speaksHttp2, { because: 'a connection may speak HTTP/2 again' });
  for (const socket of sockets) socket.destroy();
});

test('sandboxes that hold every connection lose idle ones to another sandbox', async () => {
  to(web);
  const greedy = ['127.0.9.3', '127.0.9.4'];
  for (const address of greedy) rig.egress.sandboxes.put(address, { sandboxId: `sbx_${address}`, policy: POLICY });
  const idle = greedy.flatMap((address) => Array.from({ length: 150 }, () => rig.connect(address)));
  let closed = 0;
  for (const socket of idle) socket.on('close', () => void closed++);
  await eventually(() => rig.egress.sandboxes.connectionCount === 300, { because: 'every connection is taken' });
  const mine = Array.from({ length: 20 }, () => rig.connect(OTHER_ADDRESS));
  for (const socket of mine) {
    socket.write(GET);
  }
  await eventually(() => open.size === 20, { because: 'the requests of the other sandbox arrive' });
  await eventually(() => closed === 20, { because: 'as many idle connections are closed' });
  for (const address of greedy) rig.egress.sandboxes.delete(address);
  for (const socket of mine) socket.destroy();
});

test('a sandbox that uploads by the byte takes little memory and leaves others their turns', async () => {
  to(web);
  const chunks = Buffer.from('1\r\nx\r\n'.repeat(10_000));
  const sockets = Array.from({ length: 16 }, () => rig.connect());
  const before = process.memoryUsage().rss;
  for (const socket of sockets) {
    socket.write('PUT /slow HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (let index = 0; index < 20; index += 1) socket.write(chunks);
  }
  for (let index = 0; index < 5; index += 1) await neighbourIsAnswered();
  // Without a limit each body would take some 30 MB here.
  const grown = process.memoryUsage().rss - before;
  assert.ok(grown < 200 * 1024 * 1024, `${grown} bytes`);
  for (const socket of sockets) socket.destroy();
});
