import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, describe, it } from 'node:test';
import { eventually, settled } from '@cloche/testkit/eventually';
import { CONNECT, closeServers, openServer, PLAIN, UPGRADE } from '../testing/guarded-servers.ts';
import type { ServerRules } from './guarded-server.ts';
import type { LeavingConnection } from './leaving-connection.ts';

const CONTINUE = 'POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n';

afterEach(closeServers);

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
    it(`a failure of ${name} ends its connection alone`, async () => {
      const { connect, failures, left } = await openServer(rules);
      const other = connect('GET / HTTP/1.1\r\n');
      assert.equal(await text(connect(bytes)), '');
      assert.equal(failures.length, 1);
      await eventually(() => left() === 1, { because: 'only the neighbour is left' });
      assert.equal(other.destroyed, false);
    });
  }
});

describe('a connection that asks to leave', () => {
  it('a connection that asks to leave gives what arrived since the request, in order, and what comes', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await openServer({ upgrade: asked.resolve });
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
      const { connect, left } = await openServer({ serve, upgrade: leave, connect: leave });
      const closed = () => responses.length === 3 && responses.every(({ closed, destroyed }) => closed || destroyed);
      assert.equal(await text(connect(PLAIN.repeat(3) + bytes)), '');
      await eventually(closed, { because: 'all responses are closed' });
      assert.deepEqual([asked, left()], [0, 0]);
      assert.ok(requests.every(({ destroyed }) => destroyed));
    });
  }

  it('a connection that asks to leave is served after an earlier request was answered', async () => {
    const { connect } = await openServer({ upgrade: (connection) => connection.refuse({ status: 403, body: 'no' }) });
    const client = connect(PLAIN);
    await once(client, 'data');
    client.write(UPGRADE);
    assert.match(await text(client), /^HTTP\/1\.1 403 /);
  });

  it('a connection that asks to leave with a body is an ordinary request', async () => {
    let asked = 0;
    const { connect } = await openServer({ upgrade: () => void asked++ });
    const client = connect(UPGRADE.replace('\r\n\r\n', '\r\nContent-Length: 3\r\n\r\nabc'));
    assert.match(`${await once(client, 'data')}`, /^HTTP\/1\.1 200 /);
    assert.equal(asked, 0);
  });

  it('ends in time if it is neither taken nor answered', async () => {
    const { connect, left } = await openServer({ upgrade: () => undefined, leaveMs: 20 });
    assert.equal(await text(connect(UPGRADE)), '');
    await eventually(() => left() === 0, { because: 'the connection has closed' });
  });

  it('a connection that asks to leave is not cut off while its answer is sent', async () => {
    const { connect } = await openServer({
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

  it('a connection that asks to leave is served although its client closes its own side before the answer', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await openServer({ upgrade: asked.resolve });
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

  it('a connection that asks to leave may be answered or taken when its client has gone, to no effect', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect, left } = await openServer({ upgrade: asked.resolve });
    const client = connect(UPGRADE);
    const connection = await asked.promise;
    client.resetAndDestroy();
    await eventually(() => left() === 0, { because: 'the connection has closed' });
    assert.equal(connection.take(), undefined);
    connection.refuse({ status: 400, body: '' });
    await once(connection.respond(), 'close');
  });

  it('a connection that asks to leave is given back after its answer although the client sends a byte and closes only its own side', async () => {
    const { connect, left } = await openServer({
      upgrade: (connection) => connection.refuse({ status: 404, body: '' }),
    });
    for (const bytes of [UPGRADE, CONNECT, 'no HTTP\r\n\r\n']) {
      const client = connect(bytes);
      await once(client.resume(), 'end');
      client.end('x');
      await eventually(() => left() === 0, { because: 'the connection has closed' });
    }
  });

  it('a connection that asks to leave is given back after its answer although the client stays', async () => {
    const { server, connect, left } = await openServer({
      upgrade: (connection) => connection.refuse({ status: 404, body: '' }),
    });
    for (const bytes of [UPGRADE, CONNECT, 'no HTTP\r\n\r\n']) {
      connect(`${bytes}x`).resume();
      await once(server, 'connection');
      await eventually(() => left() === 0, { because: 'the connection has closed' });
    }
  });

  it('a connection that asks to leave keeps a bounded number of bytes while it waits', async () => {
    const asked = Promise.withResolvers<LeavingConnection>();
    const { connect } = await openServer({ upgrade: asked.resolve });
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
  it('stopping ends connections that have left, or are about to', async () => {
    for (const leave of [(each: LeavingConnection) => void each.take(), () => undefined]) {
      const asked = Promise.withResolvers<void>();
      const { server, connect } = await openServer({
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

describe('bytes that are not HTTP', () => {
  it('behind an answer that has begun close the connection, without a second answer', async () => {
    const serve = (_: IncomingMessage, response: ServerResponse) => void response.write('begun');
    const { connect } = await openServer({ serve });
    const client = connect(PLAIN);
    await once(client, 'data');
    client.write('no HTTP\r\n\r\n');
    assert.equal(await text(client), '');
  });

  it('bytes that are not HTTP are answered as the rules say, also when they arrive in many pieces', async () => {
    const { connect } = await openServer({
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

it('a request with too many header fields is refused, as is an upgrade', async () => {
  const served: (string | undefined)[] = [];
  const { connect } = await openServer({
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
