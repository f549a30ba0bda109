import assert from 'node:assert/strict';
import type { IncomingMessage, Server } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, describe, test } from 'node:test';
import { EgressRig } from '../../testing/egress-rig.ts';
import { getRequest } from '../../testing/get-request.ts';
import { httpServer, portOf } from '../../testing/test-servers.ts';

const ALLOWLIST = { mode: 'allowlist' as const, hosts: ['allowed.example', '*.wild.example'] };
const DENYLIST = { mode: 'denylist' as const, hosts: ['denied.example', '*.wild.example'] };

let rig: EgressRig;
let server: Server;
let served: {
  host: string | undefined;
  url: string | undefined;
  method: string | undefined;
  fields: string[];
  body: string;
}[] = [];

before(async () => {
  server = await httpServer(async (request: IncomingMessage, response) => {
    const { url, method, rawHeaders } = request;
    served.push({ host: request.headers.host, url, method, fields: rawHeaders, body: await text(request) });
    response.setHeader('Set-Cookie', ['a=1', 'b=2']);
    response.end(`served ${url}`);
  });
  rig = await EgressRig.open(ALLOWLIST, { headersTimeoutMs: 1000 });
  rig.name('allowed.example', 'other.example', 'denied.example', 'a.wild.example', 'a.b.wild.example', 'wild.example');
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

function status(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);
}

describe('an allowlist', () => {
  test('permits what it names, however it is written, and nothing else', async () => {
    for (const host of [
      'allowed.example',
      'ALLOWED.Example.',
      'allowed.example:80',
      'a.wild.example',
      'a.b.wild.example',
    ]) {
      assert.equal(status(await rig.send(getRequest(host))), 200, host);
    }
    for (const host of ['other.example', 'wild.example', 'notallowed.example', 'allowed.example.other.example']) {
      const answer = await rig.send(getRequest(host));
      assert.match(answer, /^HTTP\/1\.1 403 .*"code":"egress_denied","host":"/s, host);
    }
  });

  test('an allowlist says what was decided in one line each', async () => {
    rig.decisions.length = 0;
    await rig.send(getRequest('allowed.example'));
    await rig.send(getRequest('other.example'));
    const told = rig.decisions.map(({ sandboxId, protocol, host, verdict, reason }) => [
      sandboxId,
      protocol,
      host,
      verdict,
      reason,
    ]);
    assert.deepEqual(told, [
      ['sbx_test', 'http', 'allowed.example', 'permitted', undefined],
      ['sbx_test', 'http', 'other.example', 'denied', 'policy'],
    ]);
    assert.ok((rig.decisions[0]?.bytesDown ?? 0) > 0 && (rig.decisions[0]?.bytesUp ?? 0) > 0);
  });

  test('an allowlist is asked again for the second request of a connection', async () => {
    const next = (host: string, path: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    const requests = [next('allowed.example', '/1'), next('other.example', '/2'), next('allowed.example', '/3')];
    const answer = await rig.send(requests.join(''));
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d{3}/g), ['HTTP/1.1 200', 'HTTP/1.1 403']);
    assert.deepEqual(
      served.map(({ url }) => url),
      ['/1'],
    );
  });

  test('an allowlist closes what is neither HTTP nor TLS', async () => {
    assert.equal(await rig.send('SSH-2.0-OpenSSH_9.2\r\n'), '');
    assert.equal(await rig.send(Buffer.from([0, 1, 2, 3])), '');
  });
});

test('a denylist permits what it does not name', async () => {
  rig.setPolicy(DENYLIST);
  for (const host of ['allowed.example', 'wild.example'])
    assert.equal(status(await rig.send(getRequest(host))), 200, host);
  for (const host of ['denied.example', 'DENIED.example', 'denied.example.', 'a.wild.example', 'a.b.wild.example']) {
    assert.equal(status(await rig.send(getRequest(host))), 403, host);
  }
});

test('names that can be read in two ways are refused in either mode', async () => {
  for (const policy of [ALLOWLIST, DENYLIST]) {
    rig.setPolicy(policy);
    for (const host of [
      'allowed%2eexample',
      'ällowed.example',
      '[::1]',
      '[::ffff:127.0.0.1]',
      'a b',
      'user@allowed.example',
      '1.2.3.4.5',
      'allowed.example..',
      'allowed.example:0',
      'allowed.example:80:80',
      'allowed.example,other.example',
    ]) {
      assert.equal(status(await rig.send(getRequest(host))), 400, `${policy.mode} ${host}`);
    }
  }
  assert.deepEqual(served, []);
});

describe('the target of a request', () => {
  const both = (target: string, host: string) => rig.send(getRequest(host, target));

  test('in absolute form is decided by its own host, which the field must agree with', async () => {
    const port = portOf(server);
    assert.equal(status(await both(`http://allowed.example:${port}/a?b`, `allowed.example:${port}`)), 200);
    assert.deepEqual([served[0]?.url, served[0]?.host], ['/a?b', `allowed.example:${port}`]);
    assert.equal(status(await both(`http://other.example:${port}/`, `other.example:${port}`)), 403);
    assert.equal(status(await both(`http://other.example:${port}/`, 'allowed.example')), 400);
    assert.equal(status(await both(`http://allowed.example:${port}/`, 'other.example')), 400);
    assert.equal(status(await both(`http://allowed.example@other.example/`, 'allowed.example')), 400);
    assert.equal(status(await both('http:///', 'allowed.example')), 400);
    assert.equal(status(await both('https://allowed.example/', 'allowed.example')), 400);
    assert.equal(status(await both('ftp://allowed.example/', 'allowed.example')), 400);
    assert.equal(served.length, 1);
  });

  test('the target of a request that looks like a host in origin form stays a path', async () => {
    assert.equal(status(await both('//other.example/', 'allowed.example')), 200);
    assert.deepEqual([served[0]?.url, served[0]?.host], ['//other.example/', 'allowed.example']);
  });

  test('two Host fields are refused', async () => {
    const twice = 'GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: other.example\r\nConnection: close\r\n\r\n';
    assert.equal(status(await rig.send(twice)), 400);
  });

  test('the target of a request without a host means the address', async () => {
    assert.equal(status(await rig.send('GET / HTTP/1.0\r\n\r\n')), 403);
    rig.destination = { address: '127.0.0.1', port: portOf(server) };
    rig.setPolicy({ mode: 'allowlist', hosts: ['127.0.0.1'] });
    assert.equal(status(await rig.send('GET / HTTP/1.0\r\n\r\n')), 200);
    rig.destination = { address: '203.0.113.7', port: portOf(server) };
  });
});

describe('a literal address', () => {
  const FORMS = ['127.0.0.1', '127.0.0.1.', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '0x7f.1'];

  test('a literal address is refused in every notation by a denylist that names it', async () => {
    rig.setPolicy({ mode: 'denylist', hosts: ['127.0.0.1'] });
    for (const host of FORMS) assert.equal(status(await rig.send(getRequest(host))), 403, host);
    rig.setPolicy({ mode: 'denylist', hosts: ['203.0.113.9'] });
    for (const host of FORMS) assert.equal(status(await rig.send(getRequest(host))), 200, host);
  });

  test('a literal address that a denylist names is not reached by a name either', async () => {
    rig.setPolicy({ mode: 'denylist', hosts: ['127.0.0.1'] });
    assert.equal(status(await rig.send(getRequest('allowed.example'))), 403);
    assert.deepEqual(served, []);
  });
});

describe('a closed address', () => {
  test('a closed address is reached by no name, and by no name that changes', async () => {
    let lookups = 0;
    for (const address of ['10.0.0.1', '127.0.0.2', '169.254.169.254', '127.0.9.2', '0.0.0.0', '224.0.0.1']) {
      rig.resolver.addresses.set('allowed.example', () => (lookups++ % 2 === 0 ? [address] : ['127.0.0.1']));
      assert.match(await rig.send(getRequest('allowed.example')), /403 .*"reason":"address"/s, address);
      lookups = 0;
    }
    rig.name('allowed.example');
  });

  test('a closed address beside an open one is passed over', async () => {
    rig.resolver.addresses.set('allowed.example', () => ['10.0.0.1', '127.0.0.1']);
    assert.equal(status(await rig.send(getRequest('allowed.example'))), 200);
    rig.name('allowed.example');
  });
});

describe('a smuggled request', () => {
  const HIDDEN = getRequest('other.example', '/hidden');
  const SHAPES: Record<string, string> = {
    'length and chunks': `Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'chunks and length': `Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'two lengths': `Content-Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
    'a list of lengths': `Content-Length: 0, ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
    'a length with a sign': `Content-Length: +0\r\n\r\n${HIDDEN}`,
    'two codings': `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'an unknown coding': `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'a coding before': `Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'a space before the colon': `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'a folded field': `X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n${HIDDEN}`,
    'a bare line feed': `X-A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'a bare carriage return': `X-A: b\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'a zero byte': `X-A: b\0c\r\n\r\n${HIDDEN}`,
    'a chunk size that overflows': `Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n${HIDDEN}`,
    'a chunk size with junk': `Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n${HIDDEN}`,
  };

  for (const [shape, rest] of Object.entries(SHAPES)) {
    test(`hidden by ${shape} is not heard`, async () => {
      const answer = await rig.send(`POST / HTTP/1.1\r\nHost: allowed.example\r\n${rest}`);
      assert.ok(!served.some(({ url }) => url === '/hidden'), answer);
      // No response at all if the body became invalid only after the request had been sent to the server.
      assert.match(answer.match(/HTTP\/1\.1 \d{3}/g)?.at(-1) ?? '', /^$| (400|403)$/);
    });
  }

  test('a smuggled request in a body is a body', async () => {
    const answer = await rig.send(
      `POST /post HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
    );
    assert.equal(status(answer), 200);
    assert.deepEqual(
      served.map(({ url, body }) => [url, body]),
      [['/post', HIDDEN]],
    );
  });
});

describe('what is passed on', () => {
  test('what is passed on is without the fields of one connection, and with all others in order', async () => {
    const answer = await rig.send(
      'POST / HTTP/1.1\r\nX-B: 1\r\nHost: allowed.example\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: x\r\nTE: trailers\r\nx-b: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n',
    );
    assert.equal(status(answer), 200);
    const fields = served[0]?.fields ?? [];
    assert.deepEqual(fields.slice(0, 6), ['Host', 'allowed.example', 'X-B', '1', 'x-b', '2']);
    assert.doesNotMatch(fields.join(), /hop|proxy|te,|trailer/i);
    assert.equal(served[0]?.body, 'abc');
    assert.deepEqual(answer.match(/Set-Cookie: ../g), ['Set-Cookie: a=', 'Set-Cookie: b=']);
  });

  test('what is passed on reaches the server from a client that waits for 100 Continue', async () => {
    const socket = rig.connect();
    socket.write(
      'PUT / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n',
    );
    socket.once('data', () => socket.write('abc'));
    assert.match(await rig.readAll(socket), /100 Continue.*200 OK/s);
    assert.equal(served[0]?.body, 'abc');
  });

  test('what is passed on is nothing when the host is denied: the client gets 403 and no 100 Continue', async () => {
    const answer = await rig.send(
      'PUT / HTTP/1.1\r\nHost: other.example\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n',
    );
    assert.match(answer, /^HTTP\/1\.1 403/);
  });
});

test('a request of more than 1,000 fields is refused', async () => {
  const request = (fields: number) =>
    getRequest('allowed.example').replace('\r\n\r\n', `\r\n${'A: b\r\n'.repeat(fields)}\r\n`);
  assert.equal(status(await rig.send(request(990))), 200);
  assert.match(await rig.send(request(1010)), /400 .*"reason":"too_many_fields"/s);
});

test('a client that never finishes its request is ended', async () => {
  const socket = rig.connect();
  socket.write('GET / HTTP/1.1\r\nHost: allowed.example\r\nX-Slow');
  assert.match(await rig.readAll(socket), /^HTTP\/1\.1 400/);
});

test('a server that cannot be reached, or a name that leads nowhere, is a 502 that says so', async () => {
  rig.resolver.addresses.set('a.wild.example', () => []);
  assert.match(await rig.send(getRequest('a.wild.example')), /502 .*"reason":"name_not_found"/s);
  rig.name('a.wild.example');
  rig.destination = { address: '203.0.113.7', port: 1 };
  assert.match(await rig.send(getRequest('a.wild.example')), /502 .*"reason":"unreachable"/s);
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
});

test('an address that is not registered is refused everything', async () => {
  assert.equal(await rig.send(getRequest('allowed.example'), rig.connect('127.0.9.77')), '');
});

test('a sandbox that ends takes its connections along', async () => {
  const socket = rig.connect();
  socket.write('GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n');
  const closed = rig.readAll(socket);
  await new Promise((resolve) => socket.once('data', resolve));
  rig.egress.sandboxes.delete('127.0.9.1');
  assert.match(await closed, /200/);
  assert.equal(await rig.send(getRequest('allowed.example')), '');
});
