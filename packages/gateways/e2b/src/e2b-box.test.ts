/** What strangers send to a sandbox by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { constants, gzipSync } from 'node:zlib';
import { BOX, type Call, type E2bBox, E2bBoxes, INTERPRETER } from '../../../service/server/testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let boxes: E2bBoxes;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  boxes = new E2bBoxes(tenants.server.url);
});
after(() => tenants?.close());

describe('an upload by E2B’s protocol', () => {
  const PATH = '/e2b-box/files?path=/workspace/kept';
  const PLAIN = { 'content-type': 'application/octet-stream' };
  const ZIPPED = { ...PLAIN, 'content-encoding': 'gzip' };
  const FORM = { 'content-type': 'multipart/form-data; boundary=X' };
  const begunForm = '--X\r\ncontent-disposition: form-data; name="file"; filename="/workspace/kept"\r\n\r\nhalf';
  const begunGzip = gzipSync('half', { finishFlush: constants.Z_SYNC_FLUSH });

  let box: E2bBox;
  before(async () => {
    box = await boxes.create(tenants.keys.whole);
  });

  function upload(headers: Record<string, string>, body: string | Uint8Array<ArrayBuffer>): Promise<Response> {
    return fetch(tenants.server.url + PATH, {
      method: 'POST',
      headers: { ...boxes.headers(box, BOX), ...headers },
      body,
    });
  }

  async function content(): Promise<string> {
    return (await fetch(tenants.server.url + PATH, { headers: boxes.headers(box, BOX) })).text();
  }

  const BROKEN: Readonly<Record<string, readonly [Record<string, string>, string | Uint8Array<ArrayBuffer>]>> = {
    'is no gzip although it says so': [ZIPPED, 'no gzip'],
    'is half a gzip': [ZIPPED, new Uint8Array(begunGzip)],
    'is half a form': [FORM, begunForm],
    'is a form with half a head': [FORM, begunForm.slice(0, 50)],
    'is a form with a head of no form': [FORM, '--X\r\nhalf\r\n--X--\r\n'],
    'is a form without a boundary': [{ 'content-type': 'multipart/form-data' }, begunForm],
    'is an empty form': [FORM, '--X--\r\n'],
  };
  for (const [name, [headers, body]] of Object.entries(BROKEN)) {
    it(`an upload by E2B’s protocol that ${name} is refused, and leaves the file as it was`, async () => {
      assert.equal((await upload(PLAIN, 'as it was')).status, 200);
      const refused = await upload(headers, body);
      assert.equal(refused.status, 400, await refused.text());
      assert.equal(await content(), 'as it was');
      assert.equal((await upload(PLAIN, 'the next one')).status, 200);
      assert.equal(await content(), 'the next one');
    });
  }
});

describe('a listing by E2B’s protocol', () => {
  const PATH = '/e2b-box/filesystem.Filesystem/ListDir';
  let box: E2bBox;
  before(async () => {
    box = await boxes.create(tenants.keys.whole);
    const names = Array.from({ length: 60 }, (_, index) => `${String(index).padStart(3, '0')}${'x'.repeat(200)}`);
    for (const name of names) {
      const path = `/e2b-box/files?path=/workspace/listed/${name}`;
      const headers = { ...boxes.headers(box, BOX), 'content-type': 'application/octet-stream' };
      assert.equal((await fetch(tenants.server.url + path, { method: 'POST', headers, body: name })).status, 200);
    }
  });

  function list(path: string, type = 'application/json'): Promise<Response> {
    const headers = { ...boxes.headers(box, BOX), 'content-type': type };
    // The first field of the message is the path.
    const binary = Buffer.concat([Buffer.from([0x0a, path.length]), Buffer.from(path)]);
    const body = type === 'application/json' ? JSON.stringify({ path }) : new Uint8Array(binary);
    return fetch(tenants.server.url + PATH, { method: 'POST', headers, body });
  }

  it('a listing by E2B’s protocol is sent as its entries arrive, in JSON and in binary', async () => {
    const answer = await list('/workspace/listed');
    assert.deepEqual([answer.status, answer.headers.get('content-length')], [200, null]);
    const { entries } = (await answer.json()) as { entries: { path: string; size: string }[] };
    assert.equal(entries.length, 60);
    assert.ok(entries.every(({ path, size }) => path.startsWith('/workspace/listed/') && size === '203'));
    const binary = await list('/workspace/listed', 'application/proto');
    assert.equal(binary.headers.get('content-type'), 'application/proto');
    const bytes = Buffer.from(await binary.arrayBuffer()).toString('latin1');
    for (const { path } of entries) assert.ok(bytes.includes(path));
  });

  const REFUSED: Readonly<Record<string, readonly [path: string, status: number, code: string]>> = {
    'of a missing directory': ['/workspace/missing', 404, 'not_found'],
    'of a path with a NUL byte': ['/workspace/\u0000', 400, 'invalid_argument'],
    'of a path that is too long': [`/${'x'.repeat(9000)}`, 400, 'invalid_argument'],
  };
  for (const [what, [path, status, code]] of Object.entries(REFUSED)) {
    it(`${what} is refused before anything is sent`, async () => {
      const refused = await list(path);
      assert.deepEqual([refused.status, ((await refused.json()) as { code: string }).code], [status, code]);
    });
  }
});

describe('the code interpreter of E2B’s protocol', () => {
  /** Each request that names a context. */
  const OF_CONTEXT: Readonly<Record<string, (id: string) => Call>> = {
    'a run': (id) => ({ port: INTERPRETER, path: '/execute', body: { code: 'set kept changed', context_id: id } }),
    'an end': (id) => ({ port: INTERPRETER, method: 'DELETE', path: `/contexts/${id}` }),
    'a restart': (id) => ({ port: INTERPRETER, path: `/contexts/${id}/restart` }),
  };

  for (const [name, request] of Object.entries(OF_CONTEXT)) {
    it(`the code interpreter of E2B’s protocol refuses ${name} in a context that is unknown, or of another sandbox or organization`, async () => {
      const [own, another, foreign] = await Promise.all([
        boxes.create(tenants.keys.whole),
        boxes.create(tenants.keys.whole),
        boxes.create(tenants.keys.foreign),
      ]);
      const theirs = await createContext(tenants.keys.foreign, foreign);
      const others = await createContext(tenants.keys.whole, another);
      for (const id of [theirs, others, `cctx_${'0'.repeat(20)}`]) {
        const refused = await boxes.call(own, request(id));
        assert.equal(refused.status, 404, id);
        assert.match(await refused.text(), /not_found/);
      }
      for (const id of ['none', 'x'.repeat(80)]) {
        const { status } = await boxes.call(own, request(id));
        assert.ok(status === 400 || status === 404, `${id}: ${status}`);
      }
      for (const [box, id] of [
        [foreign, theirs],
        [another, others],
      ] as const) {
        assert.equal(await execute(box, id, 'get kept'), 'as-it-was\n');
      }
    });
  }

  it('the code interpreter of E2B’s protocol refuses a context whose name is a part of a path', async () => {
    const box = await boxes.create(tenants.keys.whole);
    for (const id of ['.', '..', '../contexts']) {
      const { status } = await boxes.call(box, {
        port: INTERPRETER,
        path: '/execute',
        body: { code: '1', context_id: id },
      });
      assert.ok(status === 400 || status === 404, `${id}: ${status}`);
    }
  });

  it('the code interpreter of E2B’s protocol refuses a token that is missing, wrong, or of another sandbox or organization', async () => {
    const [own, another, foreign] = await Promise.all([
      boxes.create(tenants.keys.whole),
      boxes.create(tenants.keys.whole),
      boxes.create(tenants.keys.foreign),
    ]);
    const id = await createContext(tenants.keys.whole, own);
    const requests = [
      ...Object.values(OF_CONTEXT).map((request) => request(id)),
      { port: INTERPRETER, path: '/execute', body: { code: 'print 1' } },
      { port: INTERPRETER, path: '/contexts' },
      { port: INTERPRETER, method: 'GET', path: '/contexts' },
    ];
    for (const token of ['', 'x', `${own.token}x`, own.token.slice(1), another.token, foreign.token]) {
      for (const request of requests) {
        assert.equal((await boxes.call({ ...own, token }, request)).status, 401, `${request.path} with ${token}`);
      }
    }
    assert.equal(await execute(own, id, 'get kept'), 'as-it-was\n');
    const { data } = (await tenants.call(tenants.keys.whole, 'GET', contextsOf(own))).body;
    assert.deepEqual(
      data.map((context: { id: string }) => context.id),
      [id],
    );
  });
});

const contextsOf = ({ sandboxId }: E2bBox) => `/v1/sandboxes/${sandboxId}/code/contexts`;

/** Creates a context with a variable. */
async function createContext(key: string, box: E2bBox): Promise<string> {
  const { id } = (
    await tenants.call(key, 'POST', contextsOf(box), { body: { language: 'python' }, idempotencyKey: box.sandboxId })
  ).body.context;
  await execute(box, id, 'set kept as-it-was');
  return id;
}

/** Returns what code prints in a context. */
async function execute(box: E2bBox, id: string, code: string): Promise<string> {
  const response = await boxes.call(box, { port: INTERPRETER, path: '/execute', body: { code, context_id: id } });
  const lines = (await response.text()).trim().split('\n');
  const printed = lines.map((line) => JSON.parse(line)).filter(({ type }) => type === 'stdout');
  return printed.map(({ text }) => text).join('');
}
