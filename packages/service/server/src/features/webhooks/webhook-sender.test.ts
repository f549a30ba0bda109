import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { parseRanges } from '@cloche/settings';
import { startReceiver } from '../../../testing/webhooks.ts';
import { TargetGuard, type TargetOptions } from './target-guard.ts';
import { type SenderOptions, WebhookSender } from './webhook-sender.ts';

const LOOPBACK: TargetOptions = { allowHttp: true, allowCidrs: ['127.0.0.1/32'], denyCidrs: [] };
const STRICT: TargetOptions = { allowHttp: false, allowCidrs: [], denyCidrs: [] };
const NEVER = new AbortController().signal;

async function post(url: string, options: SenderOptions = {}, targets = LOOPBACK) {
  await using receiver = new WebhookSender(new TargetGuard(targets), options).open(url);
  return receiver.post({ 'webhook-id': 'evt_1' }, '{}', NEVER);
}

/** Starts a server that speaks no HTTP of its own accord: `speak` gets each connection. */
async function startSpeaker(speak: (socket: Socket) => void) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined).on('data', () => undefined);
    speak(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    port,
    /** Resolves when the client has ended every connection. */
    closed: () =>
      Promise.all(sockets.map((socket) => socket.closed || new Promise((resolve) => socket.once('close', resolve)))),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function endlessly(socket: Socket, chunk: string | Buffer): void {
  const write = () => {
    while (socket.writable && socket.write(chunk));
  };
  socket.on('drain', write);
  write();
}

describe('an attempt to send', () => {
  it('an attempt to send ends when its time is up, whatever the receiver does meanwhile', async () => {
    const drip = (socket: Socket) => {
      const timer = setInterval(() => socket.write('x'), 10);
      socket.on('close', () => clearInterval(timer));
    };
    const speeches: ((socket: Socket) => void)[] = [
      () => undefined,
      (socket) => socket.write('HTTP/1.1 200'),
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
        drip(socket);
      },
      (socket) => endlessly(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n'),
    ];
    for (const speak of speeches) {
      await using server = await startSpeaker(speak);
      const result = await post(server.url, { attemptMs: 300 });
      assert.equal(result.kind, 'failed', speak.toString());
      await server.closed();
    }
  });

  it('an attempt to send ends at once after too many interim answers, and accepts a few', async () => {
    const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n';
    await using chatty = await startSpeaker((socket) => endlessly(socket, hint.repeat(1000)));
    assert.deepEqual(await post(chatty.url), { kind: 'failed', error: 'no answer: more than 8 interim answers' });
    await chatty.closed();
    await using brief = await startSpeaker((socket) =>
      socket.end(`${hint.repeat(8)}HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n`),
    );
    assert.deepEqual(await post(brief.url), { kind: 'answered', status: 204, body: '' });
  });

  it('an attempt to send has succeeded with the status, though the body never ends', async () => {
    await using dripping = await startSpeaker((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc');
    });
    assert.deepEqual(await post(dripping.url, { attemptMs: 300 }), { kind: 'answered', status: 200, body: 'abc' });
  });

  it('an attempt to send reads 64 KiB of garbage without end, and closes the connection', async () => {
    await using server = await startSpeaker((socket) => {
      socket.write('HTTP/1.1 500 No\r\n\r\n');
      endlessly(socket, Buffer.alloc(16_384, 0));
    });
    const result = await post(server.url);
    assert.ok(result.kind === 'answered');
    assert.deepEqual([result.status, result.body], [500, '\ufffd'.repeat(65_536)]);
    await server.closed();
  });

  it('an attempt to send fails for an answer that is not HTTP, and for endless header fields', async () => {
    for (const garbage of ['\x16\x03\x01\x00', 'x-field: 1\r\n']) {
      await using server = await startSpeaker((socket) => {
        if (garbage.startsWith('x')) socket.write('HTTP/1.1 200 OK\r\n');
        endlessly(socket, garbage.repeat(1000));
      });
      assert.equal((await post(server.url)).kind, 'failed');
    }
  });

  it('an attempt to send fails for a receiver that is not there, and names why', async () => {
    const server = await startSpeaker(() => undefined);
    await server[Symbol.asyncDispose]();
    assert.deepEqual(await post(server.url), { kind: 'failed', error: 'no answer: ECONNREFUSED' });
  });

  it('an attempt to send takes a redirect for an answer and does not follow it', async () => {
    await using secret = await startReceiver();
    await using receiver = await startReceiver((response) =>
      response.writeHead(307, { location: `http://127.0.0.1:${secret.port}/latest/meta-data` }).end(),
    );
    assert.deepEqual(await post(receiver.url), { kind: 'answered', status: 307, body: '' });
    assert.equal(secret.received.length, 0);
  });
});

describe('what a webhook may not reach', () => {
  const guard = new TargetGuard(STRICT);

  it('what a webhook may not reach is a private, local or special address, of both versions and in every notation', () => {
    for (const host of [
      '127.0.0.1',
      '2130706433',
      '0x7f.1',
      '0',
      '10.0.0.1',
      '172.31.0.1',
      '192.168.1.1',
      '100.64.0.1',
      '169.254.169.254',
      '168.63.129.16',
      '224.0.0.1',
      '255.255.255.255',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:8.8.8.8]',
      '[::8.8.8.8]',
      '[64:ff9b::7f00:1]',
      '[fe80::1]',
      '[fd00:ec2::254]',
      '[fc00::1]',
      '[ff02::1]',
      '[2002:7f00:1::]',
      '[2001:0:7f00:1::]',
      '[2001:db8::1]',
    ]) {
      assert.match(guard.problemWith(`https://${host}/`) ?? '', /public address/, host);
    }
    for (const host of ['8.8.8.8', '[2606:4700::1111]', 'example.com']) {
      assert.equal(guard.problemWith(`https://${host}/`), undefined, host);
    }
  });

  it('what a webhook may not reach is a URL that is not https, or has a user', () => {
    for (const url of [
      'http://example.com',
      'ftp://example.com',
      'file:///etc/passwd',
      'https://u:p@example.com',
      'x',
    ]) {
      assert.ok(guard.problemWith(url), url);
    }
    assert.equal(new TargetGuard(LOOPBACK).problemWith('http://example.com'), undefined);
  });

  it('what a webhook may not reach is a range of the operator, also one that is both permitted and closed', () => {
    const both = new TargetGuard({
      allowHttp: true,
      allowCidrs: ['10.0.0.0/8', 'fd00::/8'],
      denyCidrs: ['10.1.0.0/16', '203.0.113.0/24'],
    });
    assert.deepEqual(
      ['10.0.0.1', 'fd00::1', '10.1.0.1', '203.0.113.1', '127.0.0.1'].map((address) => both.permits(address)),
      [true, true, false, false, false],
    );
    assert.deepEqual(parseRanges('X', '10.0.0.0/8, fd00::/8,127.0.0.1'), ['10.0.0.0/8', 'fd00::/8', '127.0.0.1/32']);
    for (const text of ['10.0.0.0/33', 'example.com', '10.0.0.0/8/8', '10.0.0/8', '::1/129']) {
      assert.throws(() => parseRanges('X', text), /X: .* is not a range/, text);
    }
  });

  it('what a webhook may not reach is an address of this host, public or not, unless the operator permits it', () => {
    const own = ['8.8.4.4', '2606:4700::7'];
    const open = (allowCidrs: string[]) =>
      new TargetGuard({ ...STRICT, allowCidrs }, { has: (address) => own.includes(address) });
    for (const address of own) {
      assert.equal(open([]).permits(address), false, address);
      assert.match(
        open([]).problemWith(new URL(`https://${address.includes(':') ? `[${address}]` : address}`).href) ?? '',
        /public/,
      );
      assert.equal(open([address]).permits(address), true, address);
    }
    for (const address of ['8.8.8.8', '2606:4700::8']) assert.equal(open([]).permits(address), true, address);
    // Those of the host that the test runs on.
    const [first] = Object.values(networkInterfaces()).flatMap((all) => all?.filter(({ internal }) => !internal) ?? []);
    if (first) assert.equal(guard.permits(first.address), false);
  });

  it('what a webhook may not reach is a range of IPv6 that the operator closes', () => {
    const closing = new TargetGuard({ ...STRICT, denyCidrs: ['2606:4700::/32'] });
    assert.deepEqual(
      ['2606:4700::1111', '2606:4701::1111'].map((address) => closing.permits(address)),
      [false, true],
    );
  });

  it('what a webhook may not reach is a name that leads to a closed address', async () => {
    await using server = await startReceiver();
    const url = `http://hooks.example.com:${server.port}/`;
    const targets = { ...STRICT, allowHttp: true };
    const refused = { kind: 'failed', error: 'the host of the URL has no public address' };
    assert.deepEqual(await post(url, { resolve: async () => ['127.0.0.1'] }, targets), refused);
    assert.deepEqual(await post(url, { resolve: async () => [] }, targets), refused);
    assert.equal(server.received.length, 0);
    // Control: the same name, where the address is permitted.
    assert.equal((await post(url, { resolve: async () => ['10.0.0.1', '127.0.0.1'] })).kind, 'answered');
    assert.equal(server.received[0]?.headers.host, `hooks.example.com:${server.port}`);
  });

  it('what a webhook may not reach is an address that a name resolves to only later: the name is resolved once', async () => {
    await using server = await startReceiver();
    let looks = 0;
    const resolve = async () => {
      looks += 1;
      return [looks === 1 ? '127.0.0.1' : '127.0.0.2'];
    };
    await using receiver = new WebhookSender(new TargetGuard(LOOPBACK), { resolve }).open(
      `http://rebinding.example:${server.port}/`,
    );
    for (let count = 0; count < 3; count += 1) {
      server.answerWith((response) => response.writeHead(204, { connection: 'close' }).end());
      assert.equal((await receiver.post({}, '{}', NEVER)).kind, 'answered');
    }
    assert.deepEqual([looks, server.received.length], [1, 3]);
  });
});

describe('TLS to a receiver', () => {
  it('TLS to a receiver is for the name of the URL, and checked against it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-webhook-tls-'));
    try {
      const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
      const made = [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-days',
        '2',
      ];
      const named = ['-subj', '/CN=hooks.example.com', '-addext', 'subjectAltName=DNS:hooks.example.com'];
      execFileSync('openssl', [...made, ...named, '-keyout', key, '-out', cert], { stdio: 'ignore' });
      const ca = readFileSync(cert, 'utf8');
      const names: unknown[] = [];
      const server = createHttpsServer({ key: readFileSync(key), cert: ca }, (request, response) => {
        names.push((request.socket as TLSSocket & { servername: unknown }).servername, request.headers.host);
        response.writeHead(204, { connection: 'close' }).end();
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const resolve = async () => ['127.0.0.1'];
      const answered = await post(`https://hooks.example.com:${port}/`, { resolve, ca });
      assert.deepEqual(answered, { kind: 'answered', status: 204, body: '' });
      assert.deepEqual(names, ['hooks.example.com', `hooks.example.com:${port}`]);
      const wrongName = await post(`https://other.example.com:${port}/`, { resolve, ca });
      assert.deepEqual(wrongName, { kind: 'failed', error: 'no answer: ERR_TLS_CERT_ALTNAME_INVALID' });
      assert.equal((await post(`https://hooks.example.com:${port}/`, { resolve })).kind, 'failed');
      server.closeAllConnections();
      server.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
