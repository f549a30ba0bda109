import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import type { Server } from 'node:https';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, describe, test } from 'node:test';
import { createSecureContext } from 'node:tls';
import { EgressRig } from '../../testing/egress-rig.ts';
import { getRequest } from '../../testing/get-request.ts';
import { httpsServer, portOf } from '../../testing/test-servers.ts';

const ALLOWLIST = { mode: 'allowlist' as const, hosts: ['allowed.example', 'second.example', 'untrusted.example'] };
const DENYLIST = { mode: 'denylist' as const, hosts: ['denied.example'] };

let rig: EgressRig;
let server: Server;
let served: { url: string | undefined; host: string | undefined; serverName: unknown; body: string }[] = [];

before(async () => {
  rig = await EgressRig.open(ALLOWLIST);
  server = await httpsServer(rig.serverAuthority, 'allowed.example', async (request, response) => {
    const { servername: serverName } = request.socket as { servername?: unknown };
    served.push({ url: request.url, host: request.headers.host, serverName, body: await text(request) });
    response.setHeader('Alt-Svc', 'h3=":443"');
    response.setHeader('Set-Cookie', ['a=1', 'b=2']);
    response.end(`served ${request.url}`);
  });
  rig.name('allowed.example', 'second.example', 'denied.example', 'other.example', 'untrusted.example');
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
});
afterEach(() => {
  served = [];
  rig.setPolicy(ALLOWLIST);
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  server.close();
});

async function getOver(servername: string, host: string): Promise<string> {
  return rig.send(getRequest(host), await rig.connectTls({ servername }));
}

describe('HTTPS', () => {
  test('to a permitted host arrives there, under its name', async () => {
    const answer = await getOver('allowed.example', 'allowed.example');
    assert.match(answer, /^HTTP\/1\.1 200 .*served \//s);
    assert.doesNotMatch(answer, /alt-svc/i);
    assert.deepEqual(served, [{ url: '/', host: 'allowed.example', serverName: 'allowed.example', body: '' }]);
  });

  test('HTTPS shows the client a certificate of the host’s authority for that name alone', async () => {
    const socket = await rig.connectTls({ servername: 'allowed.example' });
    const certificate = new X509Certificate(socket.getPeerCertificate().raw);
    assert.equal(certificate.subjectAltName, 'DNS:allowed.example');
    assert.ok(certificate.verify(new X509Certificate(rig.egress.authorityCertificate).publicKey));
    socket.destroy();
  });

  test('HTTPS to a host that is not permitted is refused inside', async () => {
    const answer = await getOver('other.example', 'other.example');
    assert.match(answer, /^HTTP\/1\.1 403 .*"egress_denied","host":"other\.example"/s);
    rig.setPolicy(DENYLIST);
    assert.match(await getOver('denied.example', 'denied.example'), /^HTTP\/1\.1 403/);
    assert.deepEqual(served, []);
  });

  test('HTTPS whose server name and host differ is refused, whichever of them is permitted', async () => {
    for (const policy of [ALLOWLIST, DENYLIST]) {
      rig.setPolicy(policy);
      for (const [name, host] of [
        ['allowed.example', 'other.example'],
        ['other.example', 'allowed.example'],
        ['allowed.example', 'denied.example'],
        ['denied.example', 'allowed.example'],
        ['allowed.example', 'second.example'],
      ] as const) {
        assert.match(
          await getOver(name, host),
          /^HTTP\/1\.1 403 .*server_name_differs/s,
          `${policy.mode} ${name} ${host}`,
        );
      }
    }
    assert.deepEqual(served, []);
  });

  test('HTTPS in absolute form must name the same host', async () => {
    const ask = async (target: string) =>
      rig.send(getRequest('allowed.example', target), await rig.connectTls({ servername: 'allowed.example' }));
    assert.match(await ask('https://allowed.example/a'), /^HTTP\/1\.1 200/);
    assert.match(await ask('https://other.example/a'), /^HTTP\/1\.1 400/);
    assert.match(await ask('http://allowed.example/a'), /^HTTP\/1\.1 400/);
  });

  test('HTTPS without a server name means the address', async () => {
    const over = async (host: string) => rig.send(getRequest(host), await rig.connectTls({ host: '127.0.0.1' }));
    rig.destination = { ...rig.destination, address: '127.0.0.1' };
    assert.match(await over('127.0.0.1'), /^HTTP\/1\.1 403/);
    assert.match(await over('allowed.example'), /^HTTP\/1\.1 403/);
    rig.setPolicy({ mode: 'allowlist', hosts: ['127.0.0.1'] });
    // Permitted, but the server's certificate is for its name, not for the address.
    assert.match(await over('127.0.0.1'), /^HTTP\/1\.1 502 .*untrusted/s);
    rig.destination = { ...rig.destination, address: '203.0.113.7' };
  });

  test('HTTPS to a server with a certificate for another name is not proxied', async () => {
    assert.match(await getOver('second.example', 'second.example'), /^HTTP\/1\.1 502 .*untrusted/s);
    assert.deepEqual(served, []);
  });

  test('HTTPS to a server without a trusted certificate is not proxied', async () => {
    const mistrusting = await EgressRig.open(ALLOWLIST, { trust: createSecureContext({ ca: [] }) });
    mistrusting.name('allowed.example');
    mistrusting.destination = rig.destination;
    const socket = await mistrusting.connectTls({ servername: 'allowed.example' });
    assert.match(await mistrusting.send(getRequest('allowed.example'), socket), /^HTTP\/1\.1 502 .*untrusted/s);
    await mistrusting[Symbol.asyncDispose]();
  });

  test('HTTPS of a client that trusts others is written down as failed', async () => {
    rig.decisions.length = 0;
    await assert.rejects(rig.connectTls({ servername: 'allowed.example', ca: [] }));
    const socket = rig.connect();
    socket.write(Buffer.from([0x16, 3, 1, 0, 5, 99, 0, 0, 1, 0]));
    await rig.readAll(socket);
    assert.ok(rig.decisions.some(({ protocol, verdict }) => protocol === 'tls' && verdict === 'failed'));
  });

  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`HTTPS of a client that resumes its session of ${version} is decided by its server name`, async () => {
      const over = { servername: 'allowed.example', minVersion: version, maxVersion: version };
      const first = await rig.connectTls(over);
      let session = first.getSession();
      first.on('session', (ticket) => {
        session = ticket;
      });
      assert.match(await rig.send(getRequest('allowed.example'), first), /^HTTP\/1\.1 200/);
      const second = await rig.connectTls({ ...over, session });
      assert.match(await rig.send(getRequest('allowed.example'), second), /^HTTP\/1\.1 200/);
    });
  }

  test('ends with its sandbox', async () => {
    const socket = await rig.connectTls({ servername: 'allowed.example' });
    const closed = rig.readAll(socket);
    rig.egress.sandboxes.delete('127.0.9.1');
    await closed;
  });
});

describe('HTTP/2', () => {
  async function session() {
    const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
    const client = connectHttp2('https://allowed.example', { createConnection: () => socket });
    return client.on('error', () => {});
  }

  async function ask(
    fields: IncomingHttpHeaders,
    body?: string,
  ): Promise<{ status: number; body: string; fields: IncomingHttpHeaders }> {
    const client = await session();
    try {
      const stream = client.request({ ':path': '/two', ...fields }, { endStream: body === undefined });
      if (body !== undefined) stream.end(body);
      const [answer] = await once(stream, 'response');
      return { status: answer[':status'], body: await text(stream), fields: answer };
    } finally {
      client.destroy();
    }
  }

  test('HTTP/2 is proxied to a server that speaks HTTP/1.1', async () => {
    const answer = await ask({ ':authority': 'allowed.example', ':method': 'POST', cookie: 'a=1; b=2' }, 'body');
    assert.deepEqual([answer.status, answer.body], [200, 'served /two']);
    assert.deepEqual(answer.fields['set-cookie'], ['a=1', 'b=2']);
    assert.deepEqual([served[0]?.host, served[0]?.body], ['allowed.example', 'body']);
    assert.equal((await ask({ ':authority': 'allowed.example', ':method': 'HEAD' })).status, 200);
  });

  test('HTTP/2 decides each request by its own authority, which all other names must agree with', async () => {
    assert.equal((await ask({ ':authority': 'other.example' })).status, 403);
    assert.equal((await ask({ ':authority': 'second.example' })).status, 403);
    assert.equal((await ask({ ':authority': 'allowed.example', host: 'other.example' })).status, 400);
    // Node ends a stream with such a path before egress sees a request.
    await assert.rejects(ask({ ':authority': 'allowed.example', ':path': 'https://other.example/' }), /PROTOCOL_ERROR/);
    assert.equal((await ask({ ':authority': 'allowed.example', ':scheme': 'http' })).status, 400);
    assert.deepEqual(served, []);
  });

  test('HTTP/2 carries many requests of one connection side by side', async () => {
    const client = await session();
    const bodies = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => text(client.request({ ':path': `/${index}` }))),
    );
    assert.deepEqual(
      bodies,
      Array.from({ length: 50 }, (_, index) => `served /${index}`),
    );
    client.destroy();
  });
});
