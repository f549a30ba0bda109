/**
 * Sends the kernel gateway what programs send to Jupyter's servers. Each accepted request of the tables is one that
 * jupyter_server 2.21.1 answers with the same status; what it fails of with 500 is refused here.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { JupyterRouter } from '@cloche/jupyter';
import { pino } from 'pino';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const NAMED = '{"name":"python3"}';
const HALF = '{"half';

let tenants: Tenants;
let kernelId: string;
before(async () => {
  tenants = await openTenants({ CLOCHE_JUPYTER: 'on' });
  kernelId = (await send('POST', '/api/kernels')).body.id;
});
after(() => tenants?.close());

interface Sending {
  readonly type?: string | undefined;
  readonly body?: string | undefined;
  /** Sends no length, and the body in pieces. */
  readonly isChunked?: boolean | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: bodies are read field by field
async function send(method: string, path: string, sending: Sending = {}): Promise<{ status: number; body: any }> {
  const { type, body = '', isChunked } = sending;
  const headers = {
    authorization: `token ${tenants.keys.whole}`,
    ...(type && { 'content-type': type }),
    ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': Buffer.byteLength(body) }),
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request(`${tenants.server.url}/jupyter${path}`, { method, headers, agent: false }, resolve)
    .on('error', reject)
    .end(body);
  const response = await promise;
  const text = (await response.setEncoding('utf8').toArray()).join('');
  return { status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) };
}

const end = (path: string) => send('DELETE', path);

const TYPES = [
  undefined,
  'application/json',
  'application/json; charset=UTF-8',
  // Of aiohttp and axios, which send it with requests without a body, too.
  'application/octet-stream',
  'text/plain;charset=UTF-8',
  'application/x-www-form-urlencoded',
  'text/html',
  'nonsense',
];

describe('a kernel is started', () => {
  for (const type of TYPES) {
    for (const [name, sending] of Object.entries({
      'without a body': {},
      'without a body, in pieces': { isChunked: true },
      'by its name': { body: NAMED },
      'by its name, in pieces': { body: NAMED, isChunked: true },
    })) {
      it(`${name}, with the content type ${type ?? 'left out'}`, async () => {
        const { status, body } = await send('POST', '/api/kernels', { type, ...sending });
        assert.deepEqual([status, body.name], [201, 'python3']);
        assert.equal((await end(`/api/kernels/${body.id}`)).status, 204);
      });
    }
  }

  for (const body of [
    'null',
    '{}',
    '{"name":null}',
    ' {"name":"python3"} ',
    '{"name":"python3","path":null}',
    '{"name":"python3","path":"a/b.ipynb","env":{}}',
    '{"name":"python3","env":null}',
    '{"name":"python3","extra":1}',
  ]) {
    it(`a kernel is started by the body ${body}`, async () => {
      const { status, body: kernel } = await send('POST', '/api/kernels', { body });
      assert.deepEqual([status, kernel.name], [201, 'python3']);
      await end(`/api/kernels/${kernel.id}`);
    });
  }

  for (const body of ['[]', '5', '"python3"', '{"name":7}', HALF, '   ', `\ufeff${NAMED}`, '{"env":[]}']) {
    it(`a kernel is started but not by the body ${JSON.stringify(body)}, which is refused in Jupyter’s form`, async () => {
      const refused = await send('POST', '/api/kernels', { body });
      assert.equal(refused.status, 400);
      assert.ok(refused.body.message);
    });
  }

  it('a kernel is started but not by bytes that are no UTF-8, or more than a mebibyte of them', async () => {
    const latin = Buffer.from('{"name":"python3\xe4"}', 'latin1').toString('latin1');
    const headers = { authorization: `token ${tenants.keys.whole}`, 'content-type': 'text/plain' };
    const url = `${tenants.server.url}/jupyter/api/kernels`;
    const sent = await fetch(url, { method: 'POST', headers, body: Buffer.from(latin, 'latin1') });
    assert.equal(sent.status, 400);
    assert.equal((await send('POST', '/api/kernels', { body: `"${'x'.repeat(2 ** 20)}"` })).status, 413);
  });
});

/** Bodies of requests that need none. */
const IGNORED: readonly Sending[] = [
  ...TYPES.map((type) => ({ type })),
  ...[NAMED, 'null', HALF].map((body) => ({ type: 'application/json', body })),
  { type: 'application/json', isChunked: true },
  { type: 'text/plain', body: 'hello' },
  { type: 'application/octet-stream', body: 'hello', isChunked: true },
];

describe('a request that needs no body', () => {
  for (const sending of IGNORED) {
    it(`a request that needs no body may have any: ${JSON.stringify(sending)}`, async () => {
      assert.equal((await send('POST', `/api/kernels/${kernelId}/interrupt`, sending)).status, 204);
      const { status, body } = await send('POST', `/api/kernels/${kernelId}/restart`, sending);
      assert.deepEqual([status, body.id], [200, kernelId]);
      assert.equal((await send('GET', '/api/kernels', sending)).status, 200);
      const started = await send('POST', '/api/kernels', { body: NAMED });
      assert.equal((await send('DELETE', `/api/kernels/${started.body.id}`, sending)).status, 204);
      const session = await send('POST', '/api/sessions', { body: '{"path":"ended.ipynb","type":"notebook"}' });
      assert.equal((await send('DELETE', `/api/sessions/${session.body.id}`, sending)).status, 204);
    });
  }
});

describe('a session is opened', () => {
  const kernel = { name: 'python3' };
  for (const [index, body] of [
    { name: 'n', kernel },
    { name: null, kernel },
    { kernel: { id: null, name: 'python3' } },
    { kernel: {} },
    { kernel: null },
    {},
    { type: 'console', kernel },
    { type: 'file', name: '', kernel },
    { type: null, kernel },
  ].entries()) {
    it(`a session is opened by the body ${JSON.stringify(body)}`, async () => {
      const path = `${index}.ipynb`;
      const sent = JSON.stringify({ path, type: 'notebook', ...body });
      const { status, body: session } = await send('POST', '/api/sessions', { type: 'text/plain', body: sent });
      assert.deepEqual([status, session.path, session.kernel.name], [201, path, 'python3']);
      await end(`/api/sessions/${session.id}`);
    });
  }

  it('by the path within `notebook`, as clients of earlier releases do', async () => {
    const body = JSON.stringify({ notebook: { path: 'old.ipynb' }, kernel });
    const { status, body: session } = await send('POST', '/api/sessions', { body });
    assert.deepEqual([status, session.path, session.notebook.path], [201, 'old.ipynb', 'old.ipynb']);
    await end(`/api/sessions/${session.id}`);
  });

  for (const body of ['', 'null', '{"type":"notebook"}', '{"path":null,"type":"notebook"}', '{"path":7}', '[]']) {
    it(`a session is opened but not by the body ${JSON.stringify(body)}`, async () => {
      assert.equal((await send('POST', '/api/sessions', { body })).status, 400);
    });
  }
});

describe('the calls of programs, as they send them', () => {
  const JSON_TYPE = 'application/json';
  /** Each list is what a program sends for one kernel: how it starts, restarts and ends it. */
  const PROGRAMS: Readonly<Record<string, readonly [string, string, Sending][]>> = {
    'Open WebUI (aiohttp)': [
      ['POST', '/api/kernels', { type: 'application/octet-stream' }],
      ['DELETE', '/api/kernels/ID', {}],
    ],
    'AutoGen (requests)': [
      ['POST', '/api/kernels', { type: JSON_TYPE, body: NAMED }],
      ['POST', '/api/kernels/ID/restart', { type: JSON_TYPE }],
      ['DELETE', '/api/kernels/ID', { type: JSON_TYPE }],
    ],
    jupyter_kernel_client: [
      ['POST', '/api/kernels', { type: JSON_TYPE, body: NAMED }],
      ['POST', '/api/kernels/ID/interrupt', { type: JSON_TYPE }],
      ['POST', '/api/kernels/ID/restart', { type: JSON_TYPE }],
      ['DELETE', '/api/kernels/ID', { type: JSON_TYPE }],
    ],
    '@jupyterlab/services (fetch)': [
      ['POST', '/api/kernels', { type: 'text/plain;charset=UTF-8', body: NAMED }],
      ['POST', '/api/kernels/ID/interrupt', { type: JSON_TYPE }],
      ['DELETE', '/api/kernels/ID', { type: JSON_TYPE }],
    ],
    'VS Code (axios)': [
      ['POST', '/api/kernels', { type: JSON_TYPE, body: '{"name":"python3","path":"a.ipynb"}' }],
      ['POST', '/api/kernels/ID/interrupt', { type: JSON_TYPE, body: '{}' }],
      ['DELETE', '/api/kernels/ID', { type: JSON_TYPE, body: '{}' }],
    ],
  };
  for (const [program, calls] of Object.entries(PROGRAMS)) {
    it(`the calls of programs, as they send them of ${program} leave no kernel`, async () => {
      let id = '';
      for (const [method, path, sending] of calls) {
        const { status, body } = await send(method, path.replace('ID', id), sending);
        assert.ok(status < 300, `${method} ${path}: ${status}`);
        id ||= body.id;
      }
      assert.equal((await send('GET', `/api/kernels/${id}`)).status, 404);
    });
  }
});

describe('the kernel of a session', () => {
  const open = async (path: string) =>
    (await send('POST', '/api/sessions', { body: JSON.stringify({ path, type: 'notebook', name: 'n' }) })).body;
  const patch = (id: string, body: object) => send('PATCH', `/api/sessions/${id}`, { body: JSON.stringify(body) });
  const idsOf = async (what: string) => (await send('GET', `/api/${what}`)).body.map(({ id }: { id: string }) => id);

  for (const kernel of [{ name: 'javascript' }, { id: null, name: 'python3' }]) {
    it(`the kernel of a session is changed by ${JSON.stringify(kernel)}: the session stays, and the former kernel ends`, async () => {
      const session = await open('changed.ipynb');
      const { status, body } = await patch(session.id, { kernel });
      assert.deepEqual(
        [status, body.id, body.path, body.name, body.kernel.name],
        [200, session.id, 'changed.ipynb', 'n', kernel.name],
      );
      assert.notEqual(body.kernel.id, session.kernel.id);
      assert.equal((await send('GET', `/api/kernels/${session.kernel.id}`)).status, 404);
      assert.deepEqual((await send('GET', `/api/sessions/${session.id}`)).body, body);
      assert.equal((await idsOf('sessions')).filter((id: string) => id === session.id).length, 1);
      const again = await open('changed.ipynb');
      assert.deepEqual([again.id, again.kernel.id], [session.id, body.kernel.id]);
      const once = await patch(session.id, { kernel: { name: 'python3' } });
      assert.deepEqual([once.body.id, once.body.kernel.name], [session.id, 'python3']);
      assert.equal((await end(`/api/sessions/${session.id}`)).status, 204);
      assert.equal((await send('GET', `/api/sessions/${session.id}`)).status, 404);
      assert.equal((await send('GET', `/api/kernels/${once.body.kernel.id}`)).status, 404);
    });
  }

  it('the kernel of a session is found at a server that did not change it', async () => {
    const { body: first } = await send('POST', '/api/kernels');
    const id = `session-of-${first.id}`;
    const { body: changed } = await patch(id, { kernel: { name: 'javascript' } });
    const other = await JupyterRouter.open({
      apiUrl: () => tenants.server.url,
      version: '1',
      log: pino({ level: 'silent' }),
      holdConnection: () => assert.fail('no client connects'),
    });
    const server = createServer((request, response) => other.handle(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jupyter/api/sessions/${id}`;
      const headers = { authorization: `token ${tenants.keys.whole}` };
      const found = (await (await fetch(url, { headers })).json()) as { id: string; kernel: { id: string } };
      assert.deepEqual([found.id, found.kernel.id], [id, changed.kernel.id]);
      assert.equal((await fetch(url, { method: 'DELETE', headers })).status, 204);
      assert.equal((await send('GET', `/api/kernels/${changed.kernel.id}`)).status, 404);
      assert.equal((await fetch(url, { headers })).status, 404);
    } finally {
      await other.close();
      server.closeAllConnections();
      server.close();
    }
  });

  it('the kernel of a session is changed to one that exists, by its id', async () => {
    const session = await open('moved.ipynb');
    const { body: other } = await send('POST', '/api/kernels');
    const { body } = await patch(session.id, { kernel: { id: other.id } });
    assert.deepEqual([body.id, body.kernel.id], [session.id, other.id]);
    assert.equal((await send('GET', `/api/kernels/${session.kernel.id}`)).status, 404);
    await end(`/api/sessions/${session.id}`);
  });

  for (const [change, path, name, type] of [
    [{ path: 'q.ipynb' }, 'q.ipynb', 'n', 'notebook'],
    [{ name: 'q' }, 'p.ipynb', 'q', 'notebook'],
    [{ name: null }, 'p.ipynb', null, 'notebook'],
    [{ type: 'console' }, 'p.ipynb', 'n', 'console'],
    [{ notebook: { path: 'r.ipynb' } }, 'r.ipynb', 'n', 'notebook'],
    [{ kernel: {} }, 'p.ipynb', 'n', 'notebook'],
    [{ kernel: { id: null } }, 'p.ipynb', 'n', 'notebook'],
    [{}, 'p.ipynb', 'n', 'notebook'],
  ] as const) {
    it(`the kernel of a session stays when a client sends ${JSON.stringify(change)}`, async () => {
      const session = await open('p.ipynb');
      const { status, body } = await patch(session.id, change);
      assert.deepEqual([status, body.id, body.path, body.name, body.type], [200, session.id, path, name, type]);
      assert.equal(body.kernel.id, session.kernel.id);
      await end(`/api/sessions/${session.id}`);
    });
  }

  it('the kernel of a session stays when the other does not exist or cannot start', async () => {
    const session = await open('kept.ipynb');
    for (const kernel of [{ name: 'cobol' }, { name: 'python3-none' }, { id: 'none' }]) {
      assert.equal((await patch(session.id, { kernel })).status, 404);
      assert.equal((await send('GET', `/api/sessions/${session.id}`)).body.kernel.id, session.kernel.id);
    }
    await end(`/api/sessions/${session.id}`);
  });

  it('the kernel of a session may have another session beside it, as a console beside a notebook', async () => {
    const session = await open('beside.ipynb');
    const body = JSON.stringify({ path: 'console-1', type: 'console', kernel: { id: session.kernel.id } });
    const { body: console } = await send('POST', '/api/sessions', { body });
    assert.deepEqual([console.path, console.kernel.id], ['console-1', session.kernel.id]);
    assert.notEqual(console.id, session.id);
    assert.equal((await send('GET', `/api/sessions/${session.id}`)).body.path, 'beside.ipynb');
    const ids = await idsOf('sessions');
    assert.ok(ids.includes(session.id) && ids.includes(console.id));
    await end(`/api/sessions/${session.id}`);
    assert.equal((await send('GET', `/api/sessions/${console.id}`)).status, 404);
  });

  it('the kernel of a session is changed by nobody else, who learns nothing of the session', async () => {
    const session = await open('own.ipynb');
    await patch(session.id, { kernel: { name: 'javascript' } });
    const foreign = { authorization: `token ${tenants.keys.foreign}` };
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const url = `${tenants.server.url}/jupyter/api/sessions/${session.id}`;
      const init = method === 'PATCH' ? { body: '{"path":"theirs"}' } : {};
      const refused = await fetch(url, { method, headers: foreign, ...init });
      assert.equal(refused.status, 404, method);
      assert.equal(JSON.stringify(await refused.json()).includes('own.ipynb'), false);
    }
    assert.equal((await send('GET', `/api/sessions/${session.id}`)).body.path, 'own.ipynb');
    await end(`/api/sessions/${session.id}`);
  });
});
