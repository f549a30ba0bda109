/**
 * Programs of a sandbox, and servers, that disconnect at any byte. Others must not be affected, and nothing may
 * remain.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { createServer, type Socket, type Server as TcpServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { fuzz, type Random, UnheardFaults } from '@cloche/testkit/fuzz';
import { EgressRig } from '../../testing/egress-rig.ts';
import { httpServer, httpsServer, listening, portOf } from '../../testing/test-servers.ts';

const CLIENTS = 40;
/** Connections to servers that are kept for a sandbox's next request. */
const MAX_KEPT = 32;
const LARGE = Buffer.alloc(1024 * 1024, 'x');
const HOST = 'Host: allowed.example\r\n';
const SWITCH = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n';

let rig: EgressRig;
let web: TcpServer;
let secureWeb: TcpServer;
/** Disconnects in the middle of its response. */
let rude: TcpServer;
const faults = new UnheardFaults();

before(async () => {
  rig = await EgressRig.open({ mode: 'denylist', hosts: ['denied.example'] });
  rig.name('allowed.example', 'denied.example');
  const serve = (_request: unknown, response: { end(body: Buffer): unknown }) => void response.end(LARGE);
  const upgrade = (_request: unknown, socket: Duplex) => {
    socket.on('error', () => undefined).resume();
    socket.once('end', () => socket.end());
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello');
  };
  web = (await httpServer(serve)).on('upgrade', upgrade);
  secureWeb = (await httpsServer(rig.serverAuthority, 'allowed.example', serve)).on('upgrade', upgrade);
  rude = await listening(
    createServer((socket) => {
      socket.on('error', () => undefined).resume();
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf');
      setTimeout(() => socket.resetAndDestroy(), 5);
    }),
  );
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const server of [web, secureWeb, rude]) server.close();
  faults[Symbol.dispose]();
});

type Open = (random: Random) => Promise<{ speak: Socket; bytes: string | Buffer }>;

const plain =
  (server: () => TcpServer, bytes: string | Buffer): Open =>
  async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(server()) };
    const speak = rig.connect();
    await once(speak, 'connect');
    return { speak, bytes };
  };
const secure =
  (bytes: string | Buffer, ALPNProtocols?: string[]): Open =>
  async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(secureWeb) };
    const speak = await rig.connectTls({ servername: 'allowed.example', ...(ALPNProtocols && { ALPNProtocols }) });
    return { speak, bytes };
  };
const upload = Buffer.concat([Buffer.from(`POST / HTTP/1.1\r\n${HOST}Content-Length: ${LARGE.length}\r\n\r\n`), LARGE]);

const kinds: Record<string, Open> = {
  'a request': plain(() => web, `GET / HTTP/1.1\r\n${HOST}\r\n`),
  'a request with a body': plain(() => web, upload),
  'a WebSocket': plain(() => web, `GET / HTTP/1.1\r\n${HOST}${SWITCH}\r\n`),
  'a CONNECT': plain(() => web, `CONNECT allowed.example:80 HTTP/1.1\r\n${HOST}\r\nGET / HTTP/1.1\r\n${HOST}\r\n`),
  'a request to a server that breaks off': plain(() => rude, `GET / HTTP/1.1\r\n${HOST}\r\n`),
  'raw bytes': plain(() => rude, 'SSH-2.0-x\r\n'),
  nothing: plain(() => rude, ''),
  'a handshake': plain(() => secureWeb, Buffer.from('160301004a010000460303', 'hex')),
  'a request in TLS': secure(`GET / HTTP/1.1\r\n${HOST}\r\n`),
  'an upload in TLS': secure(upload),
  'a WebSocket in TLS': secure(`GET / HTTP/1.1\r\n${HOST}${SWITCH}\r\n`),
  'a CONNECT in TLS': secure(`CONNECT allowed.example:443 HTTP/1.1\r\n${HOST}\r\nSSH-2.0-x\r\n`),
  'a CONNECT in TLS to a denied host': secure(`CONNECT denied.example:443 HTTP/1.1\r\n${HOST}\r\n`),
};

async function vanish(random: Random, open: Open): Promise<void> {
  const { speak, bytes } = await open(random);
  speak.on('error', () => undefined);
  const sent = random.chance(0.4) ? bytes.slice(0, random.below(bytes.length + 1)) : bytes;
  if (random.chance(0.7)) speak.resume();
  speak.write(sent);
  await delay(random.below(15));
  leave(random, speak);
}

function leave(random: Random, socket: Socket): void {
  const isTls = 'encrypted' in socket;
  if (random.chance(0.3)) socket.end();
  else if (random.chance(0.5) && !isTls) socket.resetAndDestroy();
  else socket.destroy();
  // A client that only ended its side would wait for the other side.
  setTimeout(() => socket.destroy(), 20);
}

async function answers(): Promise<void> {
  rig.destination = { address: '203.0.113.7', port: portOf(web) };
  const answer = await rig.send(`GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
  assert.match(answer, /^HTTP\/1\.1 200/);
}

/** Longer than the ten seconds that a handshake may take. */
const WITHIN = 60_000;

describe('clients that vanish', () => {
  for (const [kind, open] of Object.entries(kinds)) {
    test(`clients that vanish after ${kind}`, async () => {
      await fuzz(CLIENTS, (random) => vanish(random, open));
      await answers();
      assert.deepEqual([...faults.take(), ...rig.failures.splice(0)], []);
    });
  }

  test('in HTTP/2, with their streams or alone', async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(secureWeb) };
    await fuzz(CLIENTS, async (random) => {
      const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
      const session = connectHttp2('https://allowed.example', { createConnection: () => socket });
      session.on('error', () => undefined);
      const streams = Array.from({ length: 1 + random.below(4) }, () => {
        const stream = session.request({ ':path': '/', ':method': 'POST' }).on('error', () => undefined);
        if (random.chance(0.5)) stream.resume();
        stream.write(LARGE.subarray(0, random.below(LARGE.length)));
        return stream;
      });
      await delay(random.below(15));
      for (const stream of streams) if (random.chance(0.5)) stream.close(random.below(14));
      if (random.chance(0.3)) session.close();
      else if (random.chance(0.5)) session.destroy();
      setTimeout(() => session.destroy(), 20);
    });
    await answers();
    assert.deepEqual([...faults.take(), ...rig.failures.splice(0)], []);
  });

  test('clients that vanish and policies that change meanwhile leave nothing open', async () => {
    await fuzz(CLIENTS, async (random) => {
      const open = random.pick(Object.values(kinds) as [Open]);
      await vanish(random, open).catch(() => undefined);
      rig.setPolicy({ mode: 'denylist', hosts: [`${random.below(1000)}.example`] });
    });
    rig.setPolicy({ mode: 'denylist', hosts: ['denied.example'] });
    assert.deepEqual([...faults.take(), ...rig.failures.splice(0)], []);
    await eventually(() => rig.egress.sandboxes.connectionCount === 0, {
      within: WITHIN,
      because: 'no connection is left',
    });
    const connections = await new Promise<number>((resolve) => web.getConnections((_, count) => resolve(count)));
    assert.ok(connections <= MAX_KEPT, `${connections}`);
  });
});
