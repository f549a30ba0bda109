import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { after, afterEach, before, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ApiClient } from './api-client.ts';
import { Files } from './files.ts';

const ENTRY = { path: '/workspace/a', name: 'a', type: 'file', sizeBytes: 3 };

interface Seen {
  readonly method: string | undefined;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

const seen: Seen[] = [];
let replies: ((response: ServerResponse) => void)[] = [];
const server = createServer(async (request, response) => {
  const body = await buffer(request).catch(() => Buffer.alloc(0));
  seen.push({ method: request.method, url: new URL(request.url ?? '', 'http://x'), headers: request.headers, body });
  (replies.shift() ?? ((unscripted: ServerResponse) => unscripted.writeHead(418).end()))(response);
});
let files: Files;
before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  files = new Files(new ApiClient({ url, apiKey: 'clk_test', retryDelayMs: 1 }), 'sbx_1');
});
after(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => {
  seen.length = 0;
});

const json = (status: number, body: object) => (response: ServerResponse) => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
const refusal = (status: number, code: string) => json(status, { error: { code, message: code, requestId: 'req_1' } });
const bytes =
  (content: string, headers = {}) =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream', ...headers }).end(content);
  };

describe('reading', () => {
  it('reading gives bytes, text or a stream', async () => {
    replies = [bytes('one'), bytes('two'), bytes('three', { etag: '"1"', 'content-length': 5 })];
    assert.equal(Buffer.from(await files.read('a b/ü')).toString(), 'one');
    assert.equal(seen[0]?.url.searchParams.get('path'), 'a b/ü');
    assert.equal(await files.readText('a'), 'two');
    const { body, sizeBytes, etag } = await files.stream('a');
    assert.deepEqual([sizeBytes, etag], [5, '"1"']);
    assert.equal((await buffer(body as never)).toString(), 'three');
  });

  it('reading asks for a range', async () => {
    replies = [bytes('x'), bytes('x')];
    await files.read('a', { range: { start: 10, end: 20 } });
    await files.read('a', { range: { start: 10 } });
    assert.deepEqual(
      seen.map(({ headers }) => headers.range),
      ['bytes=10-19', 'bytes=10-'],
    );
  });

  it('reading gives all bytes of a stream that is read later, when the collector has run', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    replies = [(response) => response.end('whole')];
    const { body } = await files.archive('a');
    for (let round = 0; round < 10; round += 1) {
      collect();
      await setImmediate();
    }
    assert.equal(await text(body), 'whole');
  });

  it('reading is tried again until it begins, and then no more', async () => {
    replies = [refusal(503, 'unavailable'), bytes('fine')];
    assert.equal(await files.readText('a'), 'fine');
    replies = [
      (response) => {
        response.writeHead(200, { 'content-length': 100 });
        response.write('some', () => response.destroy());
      },
    ];
    await assert.rejects(files.readText('a'));
    assert.equal(seen.length, 3);
  });

  it('rejects with the code of the service', async () => {
    replies = [refusal(404, 'not_found'), refusal(404, 'not_found')];
    await assert.rejects(files.readText('a'), { code: 'not_found' });
    assert.equal(await files.exists('a'), false);
  });

  it('says of a file in a sandbox that is gone that the sandbox is gone, however the message words it', async () => {
    const error = { code: 'not_found', message: 'reworded', requestId: 'req_1', details: { resource: 'sandbox' } };
    replies = [json(404, { error })];
    await assert.rejects(files.exists('a'), { code: 'not_found', details: { resource: 'sandbox' } });
  });
});

describe('writing', () => {
  it('writing sends text, bytes, blobs and streams', async () => {
    const sources = [
      'text',
      Buffer.from('text'),
      new Blob(['text']),
      Readable.from([Buffer.from('te'), Buffer.from('xt')]),
    ];
    for (const source of sources) {
      replies = [json(200, { file: ENTRY })];
      assert.deepEqual(await files.write('a', source), ENTRY);
      assert.equal(seen.at(-1)?.body.toString(), 'text');
      assert.equal(seen.at(-1)?.method, 'PUT');
    }
  });

  it('writing names its conditions and the mode', async () => {
    replies = [json(200, { file: ENTRY }), json(200, { file: ENTRY })];
    await files.write('a', 'x', { createOnly: true, mode: 0o755 });
    await files.write('a', 'x', { ifMatch: '"1"' });
    assert.equal(seen[0]?.headers['if-none-match'], '*');
    assert.equal(seen[0]?.url.searchParams.get('mode'), '755');
    assert.equal(seen[1]?.headers['if-match'], '"1"');
  });

  it('writing is tried again with what is there as a whole, and never with a stream', async () => {
    replies = [refusal(503, 'unavailable'), json(200, { file: ENTRY })];
    await files.write('a', 'x');
    replies = [refusal(503, 'unavailable')];
    await assert.rejects(files.write('a', Readable.from([Buffer.from('x')])), { code: 'unavailable' });
    assert.equal(seen.length, 3);
  });
});

it('the others are calls of the contract', async () => {
  replies = Array.from({ length: 7 }, () => json(200, { file: ENTRY, data: [ENTRY], entries: 1, sizeBytes: 3 }));
  assert.deepEqual(await files.list('a', { depth: 2 }), [ENTRY]);
  await files.makeDirectory('a');
  await files.move('a', 'b');
  await files.copy('a', 'b', { overwrite: true });
  await files.remove('a', { recursive: true });
  assert.equal((await files.unpack('a', 'bytes')).entries, 1);
  await files.archive('a', { format: 'zip' });
  assert.deepEqual(
    seen.map(({ method, url }) => `${method} ${url.pathname.split('/files')[1]}${url.search}`),
    [
      'GET ?path=a&depth=2',
      'POST /directories',
      'POST /move',
      'POST /copy',
      'DELETE ?path=a&recursive=true',
      'PUT /archive?path=a',
      'GET /archive?path=a&format=zip',
    ],
  );
  assert.deepEqual(JSON.parse(String(seen[3]?.body)), { from: 'a', to: 'b', overwrite: true });
});

describe('watching', () => {
  const events = (frames: readonly object[]) => (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(frames.map((frame) => `event: x\ndata: ${JSON.stringify(frame)}\n\n`).join(''));
  };
  const watch = async () => {
    const told: unknown[] = [];
    for await (const event of files.watch('a', { recursive: true })) told.push(event.type);
    return told;
  };

  it('watching tells changes until the directory is gone, and leaves out what it does not know', async () => {
    const path = '/workspace/a/b';
    replies = [
      events([
        { type: 'created', data: { path } },
        { type: 'of a later version', data: {} },
        { type: 'complete', data: {} },
      ]),
    ];
    assert.deepEqual(await watch(), ['created', 'complete']);
    assert.equal(seen[0]?.url.search, '?path=a&recursive=true');
  });

  it('rejects with the code of the service, or because it broke off', async () => {
    replies = [events([{ type: 'error', data: { name: 'sandbox_destroyed', message: 'gone' } }]), events([])];
    await assert.rejects(watch(), { code: 'sandbox_destroyed' });
    await assert.rejects(watch(), { code: 'stream_interrupted' });
  });
});
