import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { type FileEntry, openApiDocument, operations } from '@cloche/contract';
import { sendBody } from '@cloche/runtime/byte-transfer';
import { LentBytes, type TakeBytes } from '@cloche/runtime/lent-bytes';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { AppError } from '../base/app-error.ts';
import { type Download, downloadRoute, uploadRoute } from './route.ts';

const PATH = '/v1/sandboxes/sbx_1/files/content?path=a';
const FILE = { path: '/workspace/a' } as FileEntry;

let service: TestService;
let key: string;
let download: (signal: AbortSignal) => Download;
let refusal: AppError | undefined;
let received: Buffer | undefined;
let uploadSignal: AbortSignal | undefined;
/** Receives the body in place of the handler, if it is set. */
let target: Writable | undefined;
/** Bytes of the current upload that have arrived. */
let arrived = 0;

before(async () => {
  service = await startTestService([
    downloadRoute(operations.readFile, async ({ call: { signal }, headOnly, headers }) => {
      const { body, ...rest } = download(signal);
      const echoed = { ...rest, headers: { ...rest.headers, 'x-range': headers.range ?? 'none' } };
      return headOnly || !body ? echoed : { ...echoed, body };
    }),
    uploadRoute(operations.writeFile, async ({ call: { signal }, upload, headers }) => {
      uploadSignal = signal;
      arrived = 0;
      if (refusal && headers['if-match'] === undefined) throw refusal;
      const source = upload.open();
      if (target) await sendBody(source, target);
      source.on('data', (chunk: Buffer) => {
        arrived += chunk.length;
      });
      if (refusal) {
        await once(source, 'data');
        source.pause();
        throw refusal;
      }
      received = await buffer(source);
      return { json: { file: FILE }, headers: { etag: '"1"' } };
    }),
  ]);
  key = await service.key();
});
after(() => service.close());

const head = (lines: string) =>
  `PUT ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n${lines.replaceAll('\n', '\r\n')}\r\n\r\n`;

/** Bytes of which an upload has a hundred: more than fits into the buffers of a connection. */
const CHUNK = Buffer.alloc(100_000, 'x');

async function open() {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  const until = async (pattern: RegExp) => {
    await eventually(() => pattern.test(text), { because: `the answer matches ${pattern}` });
    return text;
  };
  return { socket, until, text: () => text };
}

describe('an upload', () => {
  it('an upload is checked by each digest that it states, before its last byte is passed on', async () => {
    refusal = undefined;
    const text = 'the body';
    const digest = (algorithm: string, bytes: string) =>
      `${algorithm}=:${createHash(algorithm.replace('-', '')).update(bytes).digest('base64')}:`;
    const send = (field: string) => service.call('PUT', PATH, { body: text, headers: { 'content-digest': field } });
    const right = [digest('sha-256', text), digest('sha-512', text)];
    for (const field of [...right, right.join(', '), `md5=:YQ==:, ${right[0]}`, 'unixsum=:YQ==:']) {
      received = undefined;
      assert.equal((await send(field)).status, 200, field);
      assert.equal(String(received), text);
    }
    const other = [digest('sha-256', 'other'), digest('sha-512', 'other')];
    for (const field of [
      ...other,
      `${right[0]}, ${other[1]}`,
      `${other[0]}, ${right[1]}`,
      'sha-256',
      'sha-256=abc',
      '',
    ]) {
      received = undefined;
      const { status, body } = await send(field);
      assert.deepEqual([status, body.error.code], [400, 'invalid_request'], field);
      assert.equal(body.error.details.issues[0].path, 'headers.content-digest');
      assert.equal(received, undefined);
    }
  });

  it('an upload takes any content type, or none, and any size', async () => {
    refusal = undefined;
    for (const type of ['application/json', 'text/plain', 'image/png']) {
      const answer = await service.call('PUT', PATH, { body: '{not json', headers: { 'content-type': type } });
      assert.equal(answer.status, 200, type);
      assert.equal(received?.toString(), '{not json');
      assert.equal(answer.headers.get('etag'), '"1"');
      assert.deepEqual(answer.body, { file: FILE });
    }
    const large = Buffer.alloc(5_000_000, 'x');
    await service.call('PUT', PATH, { body: large, headers: { 'content-type': 'text/plain' } });
    assert.equal(received?.length, large.length);
    await service.call('PUT', PATH);
    assert.equal(received?.length, 0);
  });

  it('an upload is refused when it is compressed', async () => {
    const answer = await service.call('PUT', PATH, { body: 'x', headers: { 'content-encoding': 'gzip' } });
    assert.deepEqual([answer.status, answer.body.error.code], [415, 'unsupported_media_type']);
  });

  it('an upload is checked by the contract like everything else', async () => {
    const bad = await service.call('PUT', '/v1/sandboxes/sbx_1/files/content?mode=9', { body: 'x' });
    assert.match(bad.body.error.message, /query.path is required.*query.mode/);
    const forbidden = await service.call('PUT', PATH, { body: 'x', key: await service.key(['file:read']) });
    assert.equal(forbidden.body.error.details.requiredScope, 'file:write');
  });

  it('an upload is asked for only when it is wanted', async () => {
    refusal = undefined;
    const willing = await open();
    willing.socket.write(head('content-length: 3\nexpect: 100-continue'));
    await willing.until(/100 Continue\r\n\r\n$/);
    willing.socket.write('abc');
    await willing.until(/200 OK/);
    assert.equal(received?.toString(), 'abc');
    willing.socket.destroy();

    refusal = new AppError('precondition_failed', 'no');
    const refused = await open();
    refused.socket.write(head('content-length: 3\nexpect: 100-continue'));
    await once(refused.socket, 'close');
    assert.match(refused.text(), /^HTTP\/1.1 412 /);
  });

  it('an upload gets a refusal midway, while it still sends', async () => {
    refusal = new AppError('disk_full', 'full');
    const sender = await open();
    sender.socket.write(head('content-length: 50000000\nif-match: *'));
    const chunk = Buffer.alloc(100_000);
    const sending = setInterval(() => sender.socket.write(chunk), 1);
    try {
      assert.match(await sender.until(/disk_full/), /^HTTP\/1.1 507 /);
    } finally {
      clearInterval(sending);
      sender.socket.destroy();
    }
  });

  for (const [what, field] of [
    ['in chunks', 'transfer-encoding: chunked'],
    ['of a known size', `content-length: ${100 * CHUNK.length}`],
  ] as const) {
    it(`${what} gets a refusal midway, and can send the rest although its connection closes after it`, async () => {
      refusal = new AppError('disk_full', 'full');
      const sender = await open();
      const send = (bytes: Buffer | string) =>
        new Promise<void>((resolve, reject) => {
          sender.socket.write(bytes, (error) => (error ? reject(error) : resolve()));
        });
      const frame = (chunk: Buffer) =>
        field.startsWith('transfer') ? `${chunk.length.toString(16)}\r\n${chunk}\r\n` : chunk;
      await send(head(`connection: close\n${field}\nif-match: *`));
      await send(frame(CHUNK));
      assert.match(await sender.until(/disk_full/), /^HTTP\/1.1 507 /);
      const closed = once(sender.socket, 'close');
      for (let sent = 1; sent < 100; sent += 1) await send(frame(CHUNK));
      if (field.startsWith('transfer')) await send('0\r\n\r\n');
      await closed;
      assert.equal(sender.socket.errored, null);
    });
  }

  for (const [what, fields] of [
    ['in chunks', 'transfer-encoding: chunked'],
    ['of a known size', 'content-length: 400000'],
    ['with a digest', `content-length: 400000\ncontent-digest: sha-256=:${'A'.repeat(43)}=:`],
  ] as const) {
    it(`${what} that its reader refuses leaves the connection to the next request`, { timeout: 20_000 }, async () => {
      refusal = undefined;
      const full = new AppError('disk_full', 'full');
      // Refuses when the rest of the body has filled what lies before it.
      target = new Writable({ write: (_chunk, _encoding, done) => void setTimeout(done, 100, full) });
      const sender = await open();
      const body = fields.startsWith('transfer')
        ? Buffer.concat([
            Buffer.from(`${(400_000).toString(16)}\r\n`),
            Buffer.alloc(400_000),
            Buffer.from('\r\n0\r\n\r\n'),
          ])
        : Buffer.alloc(400_000);
      try {
        sender.socket.write(head(fields));
        sender.socket.write(body);
        assert.match(await sender.until(/disk_full/), /^HTTP\/1.1 507 /);
        sender.socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
        await sender.until(/HTTP\/1.1 200 /);
      } finally {
        target = undefined;
        sender.socket.destroy();
      }
    });
  }

  it('an upload whose client vanishes is aborted with that reason', async () => {
    refusal = undefined;
    arrived = 0;
    const sender = await open();
    sender.socket.write(head('content-length: 1000'));
    sender.socket.write('abc');
    await eventually(() => arrived > 0, { because: 'the first bytes arrive' });
    sender.socket.destroy();
    await eventually(() => uploadSignal?.aborted === true, { because: 'the upload is aborted' });
  });
});

describe('a download', () => {
  it('a download is the bytes, with the headers of the answer', async () => {
    download = () => ({ status: 206, headers: { 'content-length': '3', etag: '"1"' }, body: Readable.from(['abc']) });
    const answer = await service.call('GET', PATH, { headers: { range: 'bytes=0-2' } });
    assert.deepEqual([answer.status, answer.text], [206, 'abc']);
    assert.equal(answer.headers.get('x-range'), 'bytes=0-2');
    assert.ok(answer.headers.get('x-request-id'));
  });

  it('a download is left out of an answer to HEAD', async () => {
    download = () => ({ status: 200, headers: { 'content-length': '3' }, body: Readable.from(['abc']) });
    const answer = await service.call('HEAD', PATH);
    assert.deepEqual([answer.status, answer.text, answer.headers.get('content-length')], [200, '', '3']);
  });

  it('a download that breaks breaks the connection', async () => {
    const body = new Readable({ read() {} });
    download = () => ({ status: 200, headers: { 'content-length': '100' }, body });
    body.push('some');
    const answer = service.call('GET', PATH);
    await eventually(() => body.readableFlowing !== null, { because: 'the body is read' });
    body.destroy(new Error('broke'));
    await assert.rejects(answer);
  });

  it('a download whose client vanishes is ended', async () => {
    const body = new Readable({ read() {} });
    download = () => ({ status: 200, headers: { 'content-length': '100' }, body });
    body.push('some');
    const client = await open();
    client.socket.write(`GET ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
    await client.until(/some$/);
    client.socket.destroy();
    await eventually(() => body.destroyed, { because: 'the body is destroyed' });
  });

  it('a download of lent bytes gives each piece back, and ends with the last', async () => {
    let back = 0;
    const lend = async (take: TakeBytes) => {
      for (const text of ['abc', 'def']) take(Buffer.from(text), () => (back += 1));
    };
    download = () => ({ status: 200, headers: { 'content-length': '6' }, body: new LentBytes({ lend, close() {} }) });
    const answer = await service.call('GET', PATH);
    assert.deepEqual([answer.status, answer.text, back], [200, 'abcdef', 2]);
  });

  it('a download of lent bytes breaks the connection when they break off, and is ended when its client vanishes', async () => {
    const lent = (lend: (take: TakeBytes) => Promise<void>, close = () => {}) => {
      download = () => ({ status: 200, headers: { 'content-length': '100' }, body: new LentBytes({ lend, close }) });
    };
    const broken = Promise.withResolvers<void>();
    lent((take) => {
      take(Buffer.from('some'), () => broken.reject(new Error('broke')));
      return broken.promise;
    });
    await assert.rejects(service.call('GET', PATH));

    const closed = Promise.withResolvers<void>();
    const close = () => closed.reject(new Error('closed'));
    lent((take) => {
      take(Buffer.from('some'), () => undefined);
      return closed.promise;
    }, close);
    const client = await open();
    client.socket.write(`GET ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
    await client.until(/some$/);
    client.socket.destroy();
    await assert.rejects(closed.promise, /closed/);
  });
});

it('the OpenAPI document describes bytes and the headers that matter to them', () => {
  // biome-ignore lint/suspicious/noExplicitAny: a document is asserted on, field by field
  const { get, put } = (openApiDocument('0') as any).paths['/v1/sandboxes/{sandboxId}/files/content'];
  assert.deepEqual(get.responses[200].content, { 'application/octet-stream': {} });
  assert.ok(get.responses[206] && get.responses[304] && get.responses[416]);
  assert.deepEqual(put.requestBody.content, { 'application/octet-stream': {} });
  assert.ok(put.parameters.some((parameter: { in: string; name: string }) => parameter.name === 'if-match'));
});
