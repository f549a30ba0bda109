/** Which requests of a connection a `GuardedServer` reads, and when. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { CONNECT, closeServers, openServer, PLAIN, UPGRADE } from '../testing/guarded-servers.ts';
import type { LeavingConnection } from './leaving-connection.ts';

afterEach(closeServers);

describe('pipelined requests', () => {
  it('beyond the limit are not read; the others are answered, and the connection closes', async () => {
    let served = 0;
    const serve = (_: IncomingMessage, response: ServerResponse) => {
      served += 1;
      setImmediate(() => response.end('ok'));
    };
    const { connect } = await openServer({ serve, mostPending: 4 });
    const answers = (await text(connect(PLAIN.repeat(400)))).match(/HTTP\/1\.1 200 /g) ?? [];
    assert.deepEqual([served, answers.length], [4, 4]);
  });

  it('within the limit are answered, in one connection for ever', async () => {
    const { connect } = await openServer({ mostPending: 4 });
    const client = connect('');
    for (let count = 0; count < 8; count += 1) {
      client.write(PLAIN.repeat(4));
      let answers = '';
      while ((answers.match(/ok/g) ?? []).length < 4) answers += String(await once(client, 'data'));
    }
    assert.equal(client.readyState, 'open');
  });

  it('pipelined requests whose client leaves are all closed, also those that wait behind another', async () => {
    const responses: ServerResponse[] = [];
    const closed: ServerResponse[] = [];
    const serve = (_: IncomingMessage, response: ServerResponse) => {
      responses.push(response.once('close', () => closed.push(response)));
      if (responses.length > 1) response.end('ok');
    };
    const { connect } = await openServer({ serve });
    const client = connect(PLAIN.repeat(3));
    await eventually(() => responses.length === 3, { because: 'all requests have arrived' });
    client.destroy();
    await eventually(() => closed.length === 3, { because: 'all responses are closed' });
  });
});

it('a request behind an answer that closes the connection is not served, also if closing is put off', async () => {
  const served: (string | undefined)[] = [];
  const { connect, left, failures } = await openServer({
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

it('a connection goes on to the next request after an answer to a body of which a part was read', async () => {
  const { connect } = await openServer({
    serve(request, response) {
      if (request.method === 'GET') return void response.end('next');
      // Refuses once the rest of the body has filled what lies before it.
      const target = new Writable({ write: () => void setTimeout(50).then(() => target.destroy()) });
      request.pipe(target).once('close', () => response.end('refused'));
    },
  });
  const client = connect(`PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n${'x'.repeat(400_000)}${PLAIN}`);
  let answers = '';
  while (!answers.includes('next'))
    answers += String(await once(client, 'data', { signal: AbortSignal.timeout(10_000) }));
  assert.match(answers, /refused.*next/s);
});

describe('many lines at once', () => {
  const COUNT = 10_000;

  it('many lines at once of a body in chunks of one byte are parsed over several turns of the event loop', async () => {
    let inThisTurn = 0;
    let mostInATurn = 0;
    const { connect } = await openServer({
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
      const { connect } = await openServer({ upgrade: take, connect: take });
      connect(bytes + lines).end();
      assert.equal(await promise, lines);
    });
  }
});

describe('a request that is late', () => {
  const HEAD_MS = 200;

  it('a request that is late is served if this process has not read meanwhile what its client sent in time', async () => {
    const { connect, server } = await openServer({}, { headersTimeout: HEAD_MS });
    const accepted = once(server, 'connection');
    const client = connect('');
    await Promise.all([accepted, once(client, 'connect')]);
    client.end(PLAIN);
    // Stands still, also for the reading of sockets.
    for (const begun = performance.now(); performance.now() < begun + 3 * HEAD_MS; );
    assert.match(await text(client), /^HTTP\/1.1 200 /);
  });

  it('a request that is late is served on a connection that its client has opened ahead', async () => {
    const { connect } = await openServer({}, { headersTimeout: HEAD_MS });
    const client = connect('');
    await setTimeout(3 * HEAD_MS);
    client.end(PLAIN);
    assert.match(await text(client), /^HTTP\/1.1 200 /);
  });

  it('a request that is late is refused if its client has sent a part of it', async () => {
    const { connect } = await openServer({}, { headersTimeout: HEAD_MS });
    assert.match(await text(connect('GET / HTTP/1.1\r\n')), /^HTTP\/1.1 400 /);
  });

  it('a request that is late ends its connection without an answer if its client has sent nothing', async () => {
    const { connect } = await openServer({}, { headersTimeout: HEAD_MS, keepAliveTimeout: HEAD_MS });
    assert.equal(await text(connect('')), '');
  });
});
