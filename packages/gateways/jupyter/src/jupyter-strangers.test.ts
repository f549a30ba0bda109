/** Holds the WebSocket of a kernel to clients that leave half way, send too much, or may not do what they ask for. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import type { Duplex } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { JupyterClient } from '../../../service/server/testing/jupyter-client.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../../service/server/testing/web-socket-upgrade.ts';

/** Kinds of frames. */
const CONTINUATION = 0x0;
const TEXT = 0x1;
const UNKNOWN = 0x3;

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_JUPYTER: 'on' });
});
after(() => tenants?.close());

/** Creates an organization with a key for everything, and a kernel. */
async function organization() {
  const { org, key, keyId: apiKeyId } = await tenants.createOrganization();
  const jupyter = new JupyterClient(tenants.server.url, key);
  const { body: kernel } = await jupyter.post('/api/kernels', { name: 'python3' });
  const kernelId: string = kernel.id;
  return { org, key, apiKeyId, jupyter, kernelId };
}

describe('a client of a kernel that sends', () => {
  let kernel: Awaited<ReturnType<typeof organization>>;
  before(async () => {
    kernel = await organization();
    await using channels = await kernel.jupyter.open(kernel.kernelId);
    await channels.execute('set kept as-it-was');
  });

  /** Opens the channels on a bare connection. */
  async function dial(): Promise<Duplex> {
    const headers = { ...WEB_SOCKET_UPGRADE, authorization: `token ${kernel.key}` };
    const sent = request(`${tenants.server.url}/jupyter/api/kernels/${kernel.kernelId}/channels`, { headers });
    const [, socket] = (await once(sent.end(), 'upgrade')) as [unknown, Duplex];
    socket.on('error', () => undefined).resume();
    return socket;
  }

  const model = async () => (await kernel.jupyter.get(`/api/kernels/${kernel.kernelId}`)).body;

  /** A fresh connection works, and finds the kernel as it was. */
  async function assertAsBefore(): Promise<void> {
    await eventually(async () => (await model()).connections === 0, { because: 'the server has noticed the end' });
    await using channels = await kernel.jupyter.open(kernel.kernelId);
    assert.equal((await channels.execute('get kept')).stdout, 'as-it-was\n');
  }

  const header = { msg_id: 'm', msg_type: 'execute_request', session: 's', username: 'u', date: '', version: '5.4' };
  const change = JSON.stringify({ channel: 'shell', header, content: { code: 'set kept changed' } });
  const CUT_OFF: Readonly<Record<string, Buffer>> = {
    'half a frame': frame({ text: change }).subarray(0, -1),
    'half the head of a frame': frame({ text: change }).subarray(0, 1),
    'a frame of a message that does not end': frame({ text: change, isLast: false }),
    'a frame that announces less than the limit': frame({ text: change, announcedBytes: 2 ** 20 }),
  };
  for (const [name, bytes] of Object.entries(CUT_OFF)) {
    it(`${name} and is gone changes nothing`, async () => {
      const socket = await dial();
      socket.write(bytes);
      assert.equal((await model()).connections, 1);
      socket.destroy();
      await assertAsBefore();
    });
  }

  const REFUSED: Readonly<Record<string, Buffer>> = {
    'a frame that announces more than the limit': frame({ text: '', announcedBytes: 2 ** 40 }),
    'frames that are together more than the limit': Buffer.concat([
      frame({ text: 'x'.repeat(2 ** 20), isLast: false }),
      frame({ text: 'x', opcode: CONTINUATION }),
    ]),
    'a frame without a mask': Buffer.from([0x81, 2, 0x7b, 0x7d]),
    'a frame of an unknown kind': frame({ text: change, opcode: UNKNOWN }),
    'text that is no UTF-8': frame({ text: Buffer.from([0xff, 0xff]) }),
  };
  for (const [name, bytes] of Object.entries(REFUSED)) {
    it(`${name} is disconnected, and the kernel goes on`, async () => {
      const socket = await dial();
      socket.write(bytes);
      await once(socket, 'close');
      await assertAsBefore();
    });
  }

  it('half a frame while its cell runs leaves the cell to the next client', async () => {
    const socket = await dial();
    socket.write(frame({ text: change.replace('set kept changed', 'hang') }));
    await eventually(async () => (await model()).execution_state === 'busy', { because: 'the cell has begun' });
    socket.write(frame({ text: change }).subarray(0, -1));
    socket.destroy();
    await eventually(async () => (await model()).connections === 0, { because: 'the server has noticed the end' });
    await kernel.jupyter.post(`/api/kernels/${kernel.kernelId}/interrupt`, {});
    await assertAsBefore();
  });
});

describe('what is nested too deep', () => {
  /** Deeper than `JSON.stringify` can write. */
  const deep = (key: string) => `{"${key}":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
  let kernel: Awaited<ReturnType<typeof organization>>;
  before(async () => {
    kernel = await organization();
  });

  for (const type of ['shell execute_reply', 'iopub display_data', 'iopub comm_open', 'stdin input_request']) {
    it(`in a kernel's ${type} reaches no client, and the cells after it run`, async () => {
      const [channel, name] = type.split(' ');
      await using channels = await kernel.jupyter.open(kernel.kernelId);
      const told = `{"channel":"${channel}","type":"${name}","content":${deep('data')},"metadata":${deep('a')}}`;
      const first = channels.execute(`tell ${told}`, { allow_stdin: true });
      const second = channels.execute('print 2');
      assert.equal((await first).reply.status, 'ok');
      assert.equal((await second).stdout, '2\n');
    });
  }

  it("in a client's message ends its connection, and the kernel goes on", async () => {
    const header = { msg_id: 'm', msg_type: 'complete_request', session: 's', username: 'u', date: '', version: '5.4' };
    await using channels = await kernel.jupyter.open(kernel.kernelId);
    channels.sendRaw(`{"channel":"shell","header":${JSON.stringify(header)},"content":${deep('cursor_pos')}}`);
    assert.equal(await channels.closed(), true);
    await using others = await kernel.jupyter.open(kernel.kernelId);
    assert.equal((await others.execute('print 3')).stdout, '3\n');
  });
});

describe('a shutdown by a key that may not end the kernel', () => {
  it('a shutdown by a key that may not end the kernel is refused, ends no cell of another client, and leaves the kernel as it was', async () => {
    const { org, jupyter, kernelId } = await organization();
    const { key } = await tenants.operator('/keys', { org, scopes: ['code:run', 'sandbox:read'] });
    await using running = await jupyter.open(kernelId);
    const cell = running.execute('print began\nhang');
    await running.received(({ content }) => content.text === 'began\n');
    await using lesser = await new JupyterClient(tenants.server.url, key.secret).open(kernelId);
    assert.equal((await lesser.ask('shutdown_request', { restart: false }, 'control')).ename, 'forbidden');
    assert.equal((await running.ask('interrupt_request', {}, 'control')).status, 'ok');
    assert.equal((await cell).reply.ename, 'KeyboardInterrupt');
    assert.equal((await lesser.execute('print 1')).stdout, '1\n');
    await using again = await jupyter.open(kernelId);
    assert.equal((await again.execute('print 2')).stdout, '2\n');
    assert.equal((await again.ask('shutdown_request', { restart: false }, 'control')).status, 'ok');
    await Promise.all([running.closed(), lesser.closed(), again.closed()]);
  });
});

describe('through the WebSocket of a kernel hold', () => {
  it('the limit of connections of a kernel, which a client that connects again does not exceed', async () => {
    const { jupyter, kernelId } = await organization();
    const session = 'again';
    const others = await Promise.all(Array.from({ length: 31 }, () => jupyter.open(kernelId)));
    const last = await jupyter.open(kernelId, { session });
    assert.equal(await jupyter.refusal(kernelId), 429);
    await using again = await jupyter.open(kernelId, { session });
    await last.closed();
    assert.equal((await again.execute('print 1')).stdout, '1\n');
    await others[0]?.cut();
    await eventually(async () => (await jupyter.get(`/api/kernels/${kernelId}`)).body.connections === 31, {
      because: 'the server has noticed the end',
    });
    await (await jupyter.open(kernelId)).cut();
    for (const other of others) await other.cut();
  });

  it('the number of requests under way, as which each connection counts until it closes', async () => {
    const { jupyter, kernelId } = await organization();
    const before = await underWay();
    const channels = await Promise.all([jupyter.open(kernelId), jupyter.open(kernelId)]);
    assert.equal((await underWay()) - before, channels.length);
    for (const each of channels) await each.cut();
    await eventually(async () => (await underWay()) === before, { because: 'the connections are closed' });
  });

  it('the limit of requests, for each cell', async () => {
    const { org, key, jupyter, kernelId } = await organization();
    await using channels = await jupyter.open(kernelId);
    assert.equal((await channels.execute('print 1')).reply.status, 'ok');
    await tenants.operator(`/orgs/${org}/quotas`, { requestsPerMinute: 0 }, 'PATCH');
    await eventually(async () => (await tenants.call(key, 'GET', '/v1/sandboxes')).status === 429, {
      because: 'the limit is in force',
    });
    const { reply, stdout } = await channels.execute('print 2');
    assert.deepEqual([reply.status, reply.ename, stdout], ['error', 'rate_limited', '']);
    assert.equal((await channels.ask('interrupt_request', {}, 'control')).ename, 'rate_limited');
    assert.equal(await jupyter.refusal(kernelId), 429);
    await tenants.operator(`/orgs/${org}/quotas`, { requestsPerMinute: null }, 'PATCH');
    await eventually(async () => (await channels.execute('print 3')).stdout === '3\n', {
      because: 'no limit is in force',
    });
  });

  it('the end of the key, for a connection that is open', async () => {
    const { key, apiKeyId, org, jupyter, kernelId } = await organization();
    await using channels = await jupyter.open(kernelId);
    assert.equal((await channels.execute('set kept 1')).reply.status, 'ok');
    const { key: other } = await tenants.operator('/keys', { org, scopes: ['*'] });
    assert.equal((await tenants.call(other.secret, 'DELETE', `/v1/api-keys/${apiKeyId}`)).status, 200);
    assert.equal((await tenants.call(key, 'GET', '/v1/sandboxes')).status, 401);
    // It neither waits for the next cell nor for the next look at the key.
    assert.equal(await channels.closed(), true);
    await using others = await new JupyterClient(tenants.server.url, other.secret).open(kernelId);
    assert.equal((await others.execute('get kept')).stdout, '1\n');
  });

  it('the audit log, which has the changes of the kernel and no run, as with /v1', async () => {
    const { key, apiKeyId, jupyter, kernelId } = await organization();
    const channels = await jupyter.open(kernelId);
    await channels.execute('print 1');
    const before = await tenants.auditOf(key, apiKeyId);
    await channels.execute('print 2');
    assert.deepEqual(await tenants.auditOf(key, apiKeyId), before);
    await channels.ask('interrupt_request', {}, 'control');
    await channels.ask('shutdown_request', { restart: true }, 'control');
    await channels.ask('shutdown_request', { restart: false }, 'control');
    const changes = (await tenants.auditOf(key, apiKeyId)).slice(before.length);
    assert.deepEqual(changes.sort(), [
      'context.interrupted allowed',
      'context.restarted allowed',
      'sandbox.killed allowed',
    ]);
  });

  it('the scopes of the key, and the audit log has the refusal', async () => {
    const { org, key, kernelId } = await organization();
    const { key: reading } = await tenants.operator('/keys', { org, scopes: ['sandbox:read', 'sandbox:create'] });
    assert.equal(await new JupyterClient(tenants.server.url, reading.secret).refusal(kernelId), 403);
    await eventually(async () => (await tenants.auditOf(key, reading.id)).length > 0, {
      because: 'the refusal is written',
    });
    assert.match((await tenants.auditOf(key, reading.id)).join(), / denied$/);
  });
});

/** Returns how many requests and WebSockets the server counts as under way, apart from this one. */
async function underWay(): Promise<number> {
  const metrics = await (await fetch(`${tenants.server.url}/metrics`)).text();
  return Number(/^cloche_http_requests_in_flight (\d+)$/m.exec(metrics)?.[1]);
}

interface Frame {
  readonly text: string | Buffer;
  readonly opcode?: number;
  readonly isLast?: boolean;
  /** Length in the head of the frame, where it is another one. */
  readonly announcedBytes?: number;
}

/** A frame of a WebSocket client. Its mask is zero, so that it has the bytes as they are. */
function frame({ text, opcode = TEXT, isLast = true, announcedBytes }: Frame): Buffer {
  const bytes = Buffer.from(text);
  const head = Buffer.alloc(14);
  head[0] = (isLast ? 0x80 : 0) | opcode;
  head[1] = 0x80 | 127;
  head.writeBigUInt64BE(BigInt(announcedBytes ?? bytes.length), 2);
  return Buffer.concat([head, bytes]);
}
