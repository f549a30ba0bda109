import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerOptions, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { eventually, settled } from '@cloche/testkit/eventually';
import { GuardedServer, type ServerRules } from './guarded-server.ts';
import type { LeavingConnection } from './leaving-connection.ts';

const PLAIN = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const UPGRADE = 'GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n';
const CONTINUE = 'POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n';
const CONNECT = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n';

let closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing) close();
  closing = [];
});

async function open(rules: Partial<ServerRules> = {}, options: ServerOptions = {}) {
  const failures: unknown[] = [];
  const server = new GuardedServer(
    { connectionsCheckingInterval: 20, ...options },
    {
      serve: (_, response) => void response.end('ok'),
      mayUpgrade: () => true,
      report: (error) => failures.push(error),
      ...rules,
    },
  );
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => sockets.push(socket));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    server,
    failures,
    /** Number of connections that the server has. */
    left: () => sockets.filter(({ closed }) => !closed).length,
    connect(bytes: string): Socket {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => undefined);
      closing.push(() => socket.destroy());
      socket.write(bytes);
      return socket;
    },
  };
}

describe('a failure', () => {
  const failing: [name: string, bytes: string, rules: Partial<ServerRules>][] = [];
  for (const fail of [async () => Promise.reject(new Error('no')), () => assert.fail('no')]) {
    const kind = fail.constructor === (async () => undefined).constructor ? 'rejects' : 'throws';
    failing.push(
      [`a request that ${kind}`, PLAIN, { serve: fail }],
      [`a request with a body to wait for that ${kind}`, CONTINUE, { serveContinue: fail }],
      [`an upgrade that ${kind}`, UPGRADE, { upgrade: fail }],
      [`a CONNECT that ${kind}`, CONNECT, { connect: fail }],
    );
  }
  for (const [name, bytes, rules] of failing) {
    it(`of ${name} ends its connection alone`, async () => {
      const { connect, failures, left } = await open(rules);
      const other = connect('GET / HTTP/1.1\r\n');
      assert.equal(await text(connect(bytes)), '');
      assert.equal(failures.length, 1);
      await eventually(() => left() === 1, { because: 'only the neighbour is left' });
      assert.equal(other.destroyed, false);
    });
  }
});

describe('a connection that asks to leave', () => {
  it('gives what arrived since the request, in order, and what comes', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await open({ upgrade: asked.resolve });
    const client = connect(`${UPGRADE}one `);
    client.write('two ');
    const connection = await asked.promise;
    await new Promise(setImmediate);
    const taken = connection.take();
    client.end('three');
    assert.ok(taken);
    assert.equal(await text(taken), 'one two three');
  });

  for (const [name, bytes] of [
    ['an upgrade', UPGRADE],
    ['a CONNECT', CONNECT],
  ] as const) {
    it(`by ${name} behind an unanswered request is closed, and the request learns of it`, async () => {
      const requests: IncomingMessage[] = [];
      const responses: ServerResponse[] = [];
      let asked = 0;
      const leave = () => void asked++;
      const serve = (request: IncomingMessage, response: ServerResponse) => {
        requests.push(request);
        responses.push(response);
      };
      const { connect, left } = await open({ serve, upgrade: leave, connect: leave });
      const closed = () => responses.length === 3 && responses.every(({ closed, destroyed }) => closed || destroyed);
      assert.equal(await text(connect(PLAIN.repeat(3) + bytes)), '');
      await eventually(closed, { because: 'all responses are closed' });
      assert.deepEqual([asked, left()], [0, 0]);
      assert.ok(requests.every(({ destroyed }) => destroyed));
    });
  }

  it('is served after an earlier request was answered', async () => {
    const { connect } = await open({ upgrade: (connection) => connection.refuse({ status: 403, body: 'no' }) });
    const client = connect(PLAIN);
    await once(client, 'data');
    client.write(UPGRADE);
    assert.match(await text(client), /^HTTP\/1\.1 403 /);
  });

  it('with a body is an ordinary request', async () => {
    let asked = 0;
    const { connect } = await open({ upgrade: () => void asked++ });
    const client = connect(UPGRADE.replace('\r\n\r\n', '\r\nContent-Length: 3\r\n\r\nabc'));
    assert.match(`${await once(client, 'data')}`, /^HTTP\/1\.1 200 /);
    assert.equal(asked, 0);
  });

  it('ends in time if it is neither taken nor answered', async () => {
    const { connect, left } = await open({ upgrade: () => undefined, leaveMs: 20 });
    assert.equal(await text(connect(UPGRADE)), '');
    await eventually(() => left() === 0, { because: 'the connection has closed' });
  });

  it('is not cut off while its answer is sent', async () => {
    const { connect } = await open({
      leaveMs: 20,
      async upgrade(connection) {
        const response = connection.respond();
        response.write('be');
        await once(connection.request.socket.setTimeout(60), 'timeout');
        response.end('gun');
      },
    });
    assert.match(await text(connect(UPGRADE)), /gun/);
  });

  it('is served although its client closes its own side before the answer', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await open({ upgrade: asked.resolve });
    const client = connect(UPGRADE);
    const connection = await asked.promise;
    client.end('last words');
    const { socket } = connection.request;
    await eventually(() => socket.readableLength === 'last words'.length, { because: 'the words have arrived' });
    const taken = connection.take();
    assert.ok(taken);
    taken.pipe(taken);
    assert.equal(await text(client), 'last words');
  });

  it('may be answered or taken when its client has gone, to no effect', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect, left } = await open({ upgrade: asked.resolve });
    const client = connect(UPGRADE);
    const connection = await asked.promise;
    client.resetAndDestroy();
    await eventually(() => left() === 0, { because: 'the connection has closed' });
    assert.equal(connection.take(), undefined);
    connection.refuse({ status: 400, body: '' });
    await once(connection.respond(), 'close');
  });

  it('is given back after its answer although the client sends a byte and closes only its own side', async () => {
    const { connect, left } = await open({ upgrade: (connection) => connection.refuse({ status: 404, body: '' }) });
    for (const bytes of [UPGRADE, CONNECT, 'no HTTP\r\n\r\n']) {
      const client = connect(bytes);
      await once(client.resume(), 'end');
      client.end('x');
      await eventually(() => left() === 0, { because: 'the connection has closed' });
    }
  });

  it('is given back after its answer although the client stays', async () => {
    const { server, connect, left } = await open({
      upgrade: (connection) => connection.refuse({ status: 404, body: '' }),
    });
    for (const bytes of [UPGRADE, CONNECT, 'no HTTP\r\n\r\n']) {
      connect(`${bytes}x`).resume();
      await once(server, 'connection');
      await eventually(() => left() === 0, { because: 'the connection has closed' });
    }
  });

  it('keeps a bounded number of bytes while it waits', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await open({ upgrade: asked.resolve });
    const client = connect(UPGRADE);
    const connection = await asked.promise;
    client.write(Buffer.alloc(64 * 1024 * 1024));
    const { socket } = connection.request;
    await settled(() => socket.bytesRead, { forMs: 50 });
    assert.ok(socket.bytesRead < 4 * socket.readableHighWaterMark, `${socket.bytesRead}`);
    assert.ok(socket.bytesRead > UPGRADE.length);
  });
});

describe('stopping', () => {
  it('ends connections that have left, or are about to', async () => {
    for (const leave of [(each: LeavingConnection) => void each.take(), () => undefined]) {
      const asked = Promise.withResolvers<void>();
      const { server, connect } = await open({
        upgrade(connection) {
          leave(connection);
          asked.resolve();
        },
      });
      const client = connect(`${UPGRADE}x`);
      client.end();
      await asked.promise;
      const closed = once(server.close(), 'close');
      server.closeAllConnections();
      await closed;
    }
  });
});

describe('pipelined requests', () => {
  it('beyond the limit are not read; the others are answered, and the connection closes', async () => {
    let served = 0;
    const serve = (_: IncomingMessage, response: ServerResponse) => {
      served += 1;
      setImmediate(() => response.end('ok'));
    };
    const { connect } = await open({ serve, mostPending: 4 });
    const answers = (await text(connect(PLAIN.repeat(400)))).match(/HTTP\/1\.1 200 /g) ?? [];
    assert.deepEqual([served, answers.length], [4, 4]);
  });

  it('within the limit are answered, in one connection for ever', async () => {
    const { connect } = await open({ mostPending: 4 });
    const client = connect('');
    for (let count = 0; count < 8; count += 1) {
      client.write(PLAIN.repeat(4));
      let answers = '';
      while ((answers.match(/ok/g) ?? []).length < 4) answers += String(await once(client, 'data'));
    }
    assert.equal(client.readyState, 'open');
  });

  it('whose client leaves are all closed, also those that wait behind another', async () => {
    const responses: ServerResponse[] = [];
    const closed: ServerResponse[] = [];
    const serve = (_: IncomingMessage, response: ServerResponse) => {
      responses.push(response.once('close', () => closed.push(response)));
      if (responses.length > 1) response.end('ok');
    };
    const { connect } = await open({ serve });
    const client = connect(PLAIN.repeat(3));
    await eventually(() => responses.length === 3, { because: 'all requests have arrived' });
    client.destroy();
    await eventually(() => closed.length === 3, { because: 'all responses are closed' });
  });
});

describe('bytes that are not HTTP', () => {
  it('behind an answer that has begun close the connection, without a second answer', async () => {
    const serve = (_: IncomingMessage, response: ServerResponse) => void response.write('begun');
    const { connect } = await open({ serve });
    const client = connect(PLAIN);
    await once(client, 'data');
    client.write('no HTTP\r\n\r\n');
    assert.equal(await text(client), '');
  });

  it('are answered as the rules say, also when they arrive in many pieces', async () => {
    const { connect } = await open({
      refuseInvalid: ({ code }) => ({ status: 400, fields: { code: `${code}` }, body: 'no' }),
    });
    const client = connect('no HTTP\r\n\r\n');
    const answer = text(client);
    for (let count = 0; count < 20; count += 1) {
      client.write('more');
      await new Promise(setImmediate);
    }
    assert.match(await answer, /^HTTP\/1\.1 400 Bad Request\r\ncode: HPE_INVALID\w+\r\n[\s\S]*\r\n\r\nno$/);
  });
});

it('a request behind an answer that closes the connection is not served, also if closing is put off', async () => {
  const served: (string | undefined)[] = [];
  const { connect, left, failures } = await open({
    async serve({ url, socket }, response) {
      served.push(url);
      // As for a request whose body is still arriving.
      const end = socket.destroySoon.bind(socket);
      socket.destroySoon = () => void setTimeout(50).then(end);
      if (url === '/first') response.setHeader('connection', 'close');
      if (url === '/waits') await setTimeout(10);
      response.end('ok');
    },
  });
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const client = connect(get('/first') + get('/waits'));
  await once(client, 'data');
  client.write(get('/behind'));
  assert.equal(await text(client), '');
  assert.deepEqual([served, failures], [['/first', '/waits'], []]);
  await eventually(() => left() === 0, { because: 'the connection is closed' });
});

describe('many lines at once', () => {
  const COUNT = 10_000;

  it('of a body in chunks of one byte are parsed over several turns of the event loop', async () => {
    let inThisTurn = 0;
    let mostInATurn = 0;
    const { connect } = await open({
      serve(request, response) {
        let bytes = 0;
        request.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (inThisTurn === 0) setImmediate(() => (inThisTurn = 0));
          inThisTurn += 1;
          mostInATurn = Math.max(mostInATurn, inThisTurn);
        });
        request.on('end', () => response.end(`got ${bytes}`));
      },
    });
    const head = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n';
    const sent = `${head}${'1\r\nx\r\n'.repeat(COUNT)}0\r\n\r\n`;
    const answers = await Promise.all([1, 2, 3].map(() => text(connect(sent))));
    for (const answer of answers) assert.match(answer, new RegExp(`got ${COUNT}`));
    assert.ok(mostInATurn < COUNT / 4, `${mostInATurn} chunks in a turn`);
  });

  for (const [name, bytes] of Object.entries({ 'an upgrade': UPGRADE, CONNECT })) {
    it(`behind ${name} reach who takes the connection, in order`, async () => {
      const lines = Array.from({ length: COUNT }, (_, index) => `${index}\r\n`).join('');
      const { promise, resolve } = Promise.withResolvers<string>();
      const take = async (connection: LeavingConnection) => {
        // What comes meanwhile waits.
        await setTimeout(20);
        resolve(text(connection.take() ?? assert.fail()));
      };
      const { connect } = await open({ upgrade: take, connect: take });
      connect(bytes + lines).end();
      assert.equal(await promise, lines);
    });
  }
});

describe('a request that is late', () => {
  const HEAD_MS = 200;

  it('is served if this process has not read meanwhile what its client sent in time', async () => {
    const { connect, server } = await open({}, { headersTimeout: HEAD_MS });
    const accepted = once(server, 'connection');
    const client = connect('');
    await Promise.all([accepted, once(client, 'connect')]);
    client.end(PLAIN);
    // Stands still, also for the reading of sockets.
    for (const begun = performance.now(); performance.now() < begun + 3 * HEAD_MS; );
    assert.match(await text(client), /^HTTP\/1.1 200 /);
  });

  it('is served on a connection that its client has opened ahead', async () => {
    const { connect } = await open({}, { headersTimeout: HEAD_MS });
    const client = connect('');
    await setTimeout(3 * HEAD_MS);
    client.end(PLAIN);
    assert.match(await text(client), /^HTTP\/1.1 200 /);
  });

  it('is refused if its client has sent a part of it', async () => {
    const { connect } = await open({}, { headersTimeout: HEAD_MS });
    assert.match(await text(connect('GET / HTTP/1.1\r\n')), /^HTTP\/1.1 400 /);
  });

  it('ends its connection without an answer if its client has sent nothing', async () => {
    const { connect } = await open({}, { headersTimeout: HEAD_MS, keepAliveTimeout: HEAD_MS });
    assert.equal(await text(connect('')), '');
  });
});

it('a request with too many header fields is refused, as is an upgrade', async () => {
  const served: (string | undefined)[] = [];
  const { connect } = await open({
    mostFields: 4,
    serve: ({ url }, response) => void response.end(String(served.push(url))),
    upgrade: ({ request }) => void served.push(request.url),
  });
  const more = 'A: b\r\n'.repeat(4);
  for (const bytes of [PLAIN, UPGRADE]) {
    const [line = ''] = bytes.split('\r\n', 1);
    const answer = await text(connect(bytes.replace(line, `${line}\r\nConnection: close\r\n${more}`.trimEnd())));
    assert.match(answer, /^HTTP\/1\.1 400 /);
  }
  assert.deepEqual(served, []);
  await once(connect(PLAIN), 'data');
  assert.deepEqual(served, ['/']);
});
