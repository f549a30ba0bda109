/** Speaks to the kernel gateway of a whole server on a fake runtime as Jupyter does, and as strangers do. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { JupyterClient } from '../../../service/server/testing/jupyter-client.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const OFFSETS = 'v1.kernel.websocket.jupyter.org';

let tenants: Tenants;
let jupyter: JupyterClient;
let kernelId: string;
before(async () => {
  tenants = await openTenants({ CLOCHE_JUPYTER: 'on' });
  jupyter = new JupyterClient(tenants.server.url, tenants.keys.whole);
  kernelId = (await jupyter.post('/api/kernels', { name: 'python3' })).body.id;
});
after(() => tenants.close());

describe('the API of the kernel gateway', () => {
  it('the API of the kernel gateway ends a kernel with the sandbox that was created for it, and disconnects its clients', async () => {
    const { status, body: kernel } = await jupyter.post('/api/kernels', { name: 'python3' });
    assert.equal(status, 201);
    const channels = await jupyter.open(kernel.id);
    assert.equal((await jupyter.get(`/api/kernels/${kernel.id}`)).body.connections, 1);
    channels.send('execute_request', { code: 'print began\nhang' });
    await channels.received(({ content }) => content.text === 'began\n');
    const listed = (await jupyter.get('/api/kernels')).body as { id: string }[];
    assert.ok(listed.some(({ id }) => id === kernel.id));
    assert.equal((await jupyter.delete(`/api/kernels/${kernel.id}`)).status, 204);
    await channels.closed();
    assert.equal((await jupyter.get(`/api/kernels/${kernel.id}`)).status, 404);
    const { body } = await tenants.call(tenants.keys.whole, 'GET', `/v1/sandboxes/${sandboxOf(kernel.id)}`);
    assert.equal(body.sandbox.status, 'destroyed');
  });

  it('the API of the kernel gateway opens a context of a sandbox that exists, and leaves the sandbox', async () => {
    const sandboxId = await tenants.createSandbox(tenants.keys.whole);
    const { body: kernel } = await jupyter.post('/api/kernels', { name: `javascript@${sandboxId}` });
    assert.equal(kernel.name, `javascript@${sandboxId}`);
    await using channels = await jupyter.open(kernel.id);
    assert.equal((await channels.execute('value 42')).result?.['text/plain'], '42');
    assert.equal((await jupyter.delete(`/api/kernels/${kernel.id}`)).status, 204);
    assert.equal((await jupyter.get(`/api/kernels/${kernel.id}`)).status, 404);
    const { body } = await tenants.call(tenants.keys.whole, 'GET', `/v1/sandboxes/${sandboxId}`);
    assert.notEqual(body.sandbox.status, 'destroyed');
  });

  it('the API of the kernel gateway keeps a session by the path of its notebook', async () => {
    const body = { path: 'a.ipynb', name: 'a', type: 'notebook', kernel: { name: 'python3' } };
    const { body: session } = await jupyter.post('/api/sessions', body);
    assert.equal(session.kernel.name, 'python3');
    assert.equal((await jupyter.post('/api/sessions', body)).body.kernel.id, session.kernel.id);
    const renamed = await jupyter.patch(`/api/sessions/${session.id}`, { path: 'b.ipynb' });
    assert.deepEqual([renamed.body.path, renamed.body.kernel.id], ['b.ipynb', session.kernel.id]);
    assert.equal((await jupyter.delete(`/api/sessions/${session.id}`)).status, 204);
    assert.equal((await jupyter.get(`/api/sessions/${session.id}`)).status, 404);
  });

  it('says which kernel, session or spec does not exist', async () => {
    const unknown = ['/api/kernels/none', '/api/sessions/none', '/api/kernelspecs/constructor', '/api/terminals'];
    for (const path of unknown) assert.equal((await jupyter.get(path)).status, 404, path);
    const named = await jupyter.post('/api/kernels', { name: 'cobol' });
    assert.equal(named.status, 404);
    assert.match(named.body.message, /no kernel "cobol"/);
    assert.equal((await jupyter.post('/api/kernels', { name: 7, env: { A: {} } })).status, 400);
  });
});

describe('the channels of a kernel', () => {
  for (const protocol of [undefined, OFFSETS]) {
    it(`the channels of a kernel carry messages in ${protocol ?? 'JSON'}`, async () => {
      await using channels = await jupyter.open(kernelId, { protocol });
      assert.equal(channels.protocol, protocol ?? '');
      const info = await channels.ask('kernel_info_request');
      assert.deepEqual([info.status, info.protocol_version], ['ok', '5.4']);
      const { reply, result, types } = await channels.execute('value aä');
      assert.equal(reply.status, 'ok');
      assert.equal(result?.['text/plain'], 'aä');
      assert.deepEqual(types, ['status', 'execute_input', 'execute_result', 'status']);
    });
  }

  it('the channels of a kernel take messages without a channel and with a number as date, as jupyter_server sends them', async () => {
    await using channels = await jupyter.open(kernelId);
    const send = (msg_type: string, sent: object) => {
      const header = { msg_id: msg_type, msg_type, session: 's', username: 'u', date: 1.5, version: '5.4' };
      channels.sendRaw(JSON.stringify({ header, msg_id: msg_type, msg_type, metadata: {}, content: sent }));
    };
    send('kernel_info_request', {});
    const { content } = await channels.received(({ channel }) => channel === 'shell');
    assert.equal(content.status, 'ok');
    const cell = channels.execute('ask Name?', { allow_stdin: true });
    await channels.received(({ channel }) => channel === 'stdin');
    send('input_reply', { value: 'Ada' });
    assert.equal((await cell).stdout, 'Ada\n');
  });

  it('the channels of a kernel show all clients what a cell prints, and answer the one that sent it', async () => {
    await using one = await jupyter.open(kernelId);
    await using two = await jupyter.open(kernelId);
    await one.execute('print for all');
    await two.received(({ header }) => header.msg_type === 'stream');
    assert.equal(
      two.messages.some(({ channel }) => channel === 'shell'),
      false,
    );
  });

  it('interrupt a cell by a message, and abort the cells after it', async () => {
    await using channels = await jupyter.open(kernelId);
    const first = channels.execute('print began\nhang');
    const second = channels.execute('print 1');
    await channels.received(({ content }) => content.text === 'began\n');
    assert.equal((await channels.ask('interrupt_request', {}, 'control')).status, 'ok');
    const { reply } = await first;
    assert.equal(reply.ename, 'KeyboardInterrupt');
    assert.match(reply.traceback.join(), /^KeyboardInterrupt: /);
    assert.equal((await second).reply.status, 'aborted');
    assert.equal((await channels.execute('value 2')).result?.['text/plain'], '2');
  });

  it('the channels of a kernel give a client that lost its connection what it missed', async () => {
    const session = 'a-session';
    const lost = await jupyter.open(kernelId, { session });
    const id = lost.send('execute_request', { code: 'print began\nhang' });
    await lost.received(({ content }) => content.text === 'began\n');
    await lost.cut();
    await eventually(async () => (await jupyter.get(`/api/kernels/${kernelId}`)).body.connections === 0, {
      because: 'the connection was cut',
    });
    await jupyter.post(`/api/kernels/${kernelId}/interrupt`, {});
    await eventually(async () => (await jupyter.get(`/api/kernels/${kernelId}`)).body.execution_state === 'idle', {
      because: 'the cell was interrupted',
    });
    await using again = await jupyter.open(kernelId, { session });
    const reply = await again.received(
      ({ channel, parent_header }) => channel === 'shell' && parent_header.msg_id === id,
    );
    assert.equal(reply.content.ename, 'KeyboardInterrupt');
    assert.ok(again.messages.some(({ header }) => header.msg_type === 'error'));
  });

  it('the channels of a kernel give a client that connects again the place of its former connection', async () => {
    const session = 'another-session';
    const connections = async () => (await jupyter.get(`/api/kernels/${kernelId}`)).body.connections;
    await using former = await jupyter.open(kernelId, { session });
    const id = former.send('execute_request', { code: 'print began\nhang' });
    await former.received(({ content }) => content.text === 'began\n');
    await using again = await jupyter.open(kernelId, { session });
    await eventually(async () => (await connections()) === 1, { because: 'the former connection has ended' });
    assert.equal(await former.closed(), true);
    await jupyter.post(`/api/kernels/${kernelId}/interrupt`, {});
    const reply = await again.received(
      ({ channel, parent_header }) => channel === 'shell' && parent_header.msg_id === id,
    );
    assert.equal(reply.content.ename, 'KeyboardInterrupt');
    assert.equal(await connections(), 1);
  });

  it('the channels of a kernel ask the kernel about code and pass on its reply', async () => {
    await using channels = await jupyter.open(kernelId);
    const content = { code: 'zi', cursor_pos: 2 };
    assert.deepEqual((await channels.ask('complete_request', content)).asked, content);
    // The toy kernel has no version.
    assert.equal((await channels.ask('kernel_info_request')).language_info.name, 'python');
    const sandboxId = await tenants.createSandbox(tenants.keys.whole);
    const { body: kernel } = await jupyter.post('/api/kernels', { name: `javascript@${sandboxId}` });
    await using javascript = await jupyter.open(kernel.id);
    assert.deepEqual((await javascript.ask('complete_request', content)).asked, content);
    assert.deepEqual((await javascript.ask('history_request', { n: 3 })).asked, { n: 3 });
    // Its kernels are asked for nothing else.
    assert.deepEqual((await javascript.ask('comm_info_request')).comms, {});
  });

  it('the channels of a kernel answer on the control channel while a run of another client keeps the kernel busy', async () => {
    const { body: kernel } = await jupyter.post('/api/kernels', { name: 'python3' });
    await using channels = await jupyter.open(kernel.id);
    const [, sandboxId, contextId] = /(sbx_\w+)-(cctx_\w+)/.exec(kernel.id) ?? [];
    const path = `/v1/sandboxes/${sandboxId}/code`;
    const run = tenants.call(tenants.keys.whole, 'POST', `${path}/runs`, {
      body: { contextId, code: 'hang', language: 'python' },
      idempotencyKey: 'busy',
    });
    await eventually(async () => (await jupyter.get(`/api/kernels/${kernel.id}`)).body.execution_state === 'busy', {
      because: 'the run has begun',
    });
    const asked = channels.ask('kernel_info_request');
    assert.equal((await channels.ask('kernel_info_request', {}, 'control')).status, 'ok');
    await jupyter.post(`/api/kernels/${kernel.id}/interrupt`, {});
    assert.equal((await run).body.run.error.name, 'CanceledError');
    assert.equal((await asked).status, 'ok');
  });

  it('the channels of a kernel pass on what a kernel tells, in order with what it prints', async () => {
    await using channels = await jupyter.open(kernelId);
    const open = { channel: 'iopub', type: 'comm_open', content: { comm_id: 'c' } };
    const clear = { channel: 'iopub', type: 'clear_output', content: { wait: true } };
    const code = `print 1\ntell ${JSON.stringify(open)}\nprint 2\ntell ${JSON.stringify(clear)}`;
    const { types } = await channels.execute(code);
    assert.deepEqual(types, ['status', 'execute_input', 'stream', 'comm_open', 'stream', 'clear_output', 'status']);
    // This client reads no buffers.
    await channels.cut();
    await using binary = await jupyter.open(kernelId, { protocol: OFFSETS });
    await binary.execute(`tell ${JSON.stringify({ ...open, buffers: ['AAE='] })}`);
    const { buffers } = await binary.received(({ header }) => header.msg_type === 'comm_open');
    assert.deepEqual(
      buffers.map((buffer) => [...buffer]),
      [[0, 1]],
    );
  });

  it('the channels of a kernel pass messages of comms on to the kernel, which has no reply to them', async () => {
    await using channels = await jupyter.open(kernelId);
    const id = channels.send('comm_msg', { comm_id: 'c', data: { value: 7 } });
    const { content } = await channels.received(({ header }) => header.msg_type === 'stream');
    assert.deepEqual(JSON.parse(content.text).content, { comm_id: 'c', data: { value: 7 } });
    await channels.received(
      ({ parent_header, content }) => parent_header.msg_id === id && content.execution_state === 'idle',
    );
    assert.equal(
      channels.messages.some(({ channel }) => channel === 'shell'),
      false,
    );
  });

  it('the channels of a kernel ask the client that sent a cell for a line of input, and no other', async () => {
    await using asking = await jupyter.open(kernelId);
    await using other = await jupyter.open(kernelId);
    const cell = asking.execute('ask Name?', { allow_stdin: true });
    const request = await asking.received(({ channel }) => channel === 'stdin');
    assert.deepEqual(request.content, { prompt: 'Name?', password: false });
    other.send('input_reply', { value: 'stranger' }, 'stdin');
    // Its answer shows that the server has read what it sent before.
    await other.ask('kernel_info_request', {}, 'control');
    asking.send('input_reply', { value: 'Ada' }, 'stdin');
    assert.equal((await cell).stdout, 'Ada\n');
    assert.equal(
      other.messages.some(({ channel }) => channel === 'stdin'),
      false,
    );
    asking.send('input_reply', { value: 'late' }, 'stdin');
    assert.equal((await asking.execute('print 1')).stdout, '1\n');
  });

  it('the channels of a kernel are asked for no input that the client does not allow', async () => {
    await using channels = await jupyter.open(kernelId);
    const cell = channels.execute('print began\nask Name?', { allow_stdin: false });
    await channels.received(({ content }) => content.text === 'began\n');
    assert.equal((await channels.ask('interrupt_request', {}, 'shell')).status, 'ok');
    assert.equal((await cell).reply.ename, 'KeyboardInterrupt');
    assert.equal(
      channels.messages.some(({ channel }) => channel === 'stdin'),
      false,
    );
  });

  const chart = 'application/vnd.cloche.chart+json';
  const data = 'application/vnd.cloche.data+json';
  const text = { 'text/plain': 'a' };
  for (const [type, forms] of Object.entries({
    execute_result: { [data]: {}, ...text },
    display_data: { ...text, [chart]: { type: 'line' }, 'application/json': {} },
    update_display_data: { [chart]: {}, [data]: {}, 'image/png': 'aGk=' },
  })) {
    it(`the channels of a kernel carry forms that only Cloche has for clients that ask for them: ${type}`, async () => {
      await using channels = await jupyter.open(kernelId);
      const sent = { channel: 'iopub', type, content: { data: forms, metadata: { [chart]: {}, ...text } } };
      const told = async (metadata: object) => {
        const from = channels.messages.length;
        await channels.execute(`tell ${JSON.stringify(sent)}`, {}, metadata);
        const { content } = channels.messages.slice(from).find(({ header }) => header.msg_type === type) ?? {};
        return [Object.keys(content.data), Object.keys(content.metadata)];
      };
      const usual = Object.keys(forms).filter((form) => form !== chart && form !== data);
      for (const metadata of [{}, { cloche: {} }, { cloche: { forms: 1 } }, { cloche: null }])
        assert.deepEqual(await told(metadata), [usual, ['text/plain']]);
      assert.deepEqual(await told({ cloche: { forms: true } }), [Object.keys(forms), [chart, 'text/plain']]);
    });
  }

  const tells = (type: string, content: object) => `tell ${JSON.stringify({ channel: 'iopub', type, content })}`;
  // As ipykernel 7 does.
  const SILENT: Readonly<Record<string, readonly string[]>> = {
    'value 2': [],
    'print 1\nvalue 2': ['stream'],
    'warn 1': ['stream'],
    [tells('display_data', { data: text, metadata: {} })]: ['display_data'],
    [tells('update_display_data', { data: text, metadata: {} })]: ['update_display_data'],
    [tells('clear_output', { wait: false })]: ['clear_output'],
    [tells('comm_open', { comm_id: 'c', target_name: 't', data: {} })]: ['comm_open'],
  };
  for (const [code, shown] of Object.entries(SILENT)) {
    it(`the channels of a kernel hide the value alone of a silent cell: ${code}`, async () => {
      await using channels = await jupyter.open(kernelId);
      const { types, reply } = await channels.execute(code, { silent: true });
      assert.deepEqual([types, reply.status], [['status', ...shown, 'status'], 'ok']);
    });
  }

  it('the channels of a kernel tell after a cell that the kernel was replaced before it, unless its death was shown', async () => {
    const { body: kernel } = await jupyter.post('/api/kernels', { name: 'python3' });
    await using channels = await jupyter.open(kernel.id);
    const restarts = () => channels.messages.filter(({ content }) => content.execution_state === 'restarting').length;
    assert.equal((await channels.execute('die')).reply.ename, 'KernelDiedError');
    await channels.execute('print 1');
    const [, sandboxId, contextId] = /(sbx_\w+)-(cctx_\w+)/.exec(kernel.id) ?? [];
    const body = { contextId, code: 'die', language: 'python' };
    const path = `/v1/sandboxes/${sandboxId}/code/runs`;
    await tenants.call(tenants.keys.whole, 'POST', path, { body, idempotencyKey: 'death' });
    assert.equal(restarts(), 0);
    assert.equal((await channels.execute('print 1')).stdout, '1\n');
    const told = await channels.received(({ content }) => content.execution_state === 'restarting');
    assert.deepEqual(told.parent_header, {});
    const last = await channels.received((message) => message !== told && channels.messages.at(-1) === message);
    assert.equal(last.content.execution_state, 'idle');
    await channels.execute('print 1');
    assert.equal(restarts(), 1);
  });

  it('restart the kernel, whose variables are gone', async () => {
    await using channels = await jupyter.open(kernelId);
    await channels.execute('set kept 1');
    assert.equal((await jupyter.post(`/api/kernels/${kernelId}/restart`, {})).status, 200);
    const { reply } = await channels.execute('get kept');
    assert.equal(reply.ename, 'NameError');
  });
});

describe('strangers', () => {
  it('strangers without a key are refused', async () => {
    const nobody = new JupyterClient(tenants.server.url, '');
    assert.equal((await nobody.get('/api/kernels')).status, 401);
    assert.equal(await nobody.refusal(kernelId), 401);
    assert.equal(await new JupyterClient(tenants.server.url, 'wrong').refusal(kernelId), 401);
  });

  it('a kernel is open to its own organization alone', async () => {
    const other = new JupyterClient(tenants.server.url, tenants.keys.foreign);
    assert.equal((await other.get(`/api/kernels/${kernelId}`)).status, 404);
    assert.equal(await other.refusal(kernelId), 404);
    assert.equal((await other.delete(`/api/kernels/${kernelId}`)).status, 404);
    assert.deepEqual((await other.get('/api/kernels')).body, []);
    assert.equal((await jupyter.get(`/api/kernels/${kernelId}`)).status, 200);
  });

  it('strangers with a key without the scope are refused', async () => {
    const { key } = await tenants.operator('/keys', { scopes: ['sandbox:read'] });
    const reader = new JupyterClient(tenants.server.url, key.secret);
    assert.equal((await reader.post('/api/kernels', { name: 'python3' })).status, 403);
    assert.equal(await reader.refusal(kernelId), 403);
  });

  it('strangers in a sandbox get no message to clients that kernels do not send', async () => {
    await using channels = await jupyter.open(kernelId);
    const told = [
      'no JSON',
      '[]',
      '{"channel":"iopub"}',
      JSON.stringify({ channel: 'iopub', type: 'status', content: { execution_state: 'dead' } }),
      JSON.stringify({ channel: 'control', type: 'shutdown_reply', content: {} }),
      JSON.stringify({ channel: 'stdin', type: 'input_request', content: { prompt: 'key?' } }),
      JSON.stringify({ channel: 'iopub', type: 'comm_msg', content: {}, buffers: 7 }),
    ];
    const { types, reply } = await channels.execute(told.map((text) => `tell ${text}`).join('\n'));
    assert.deepEqual([types, reply.status], [['status', 'execute_input', 'status'], 'ok']);
    assert.equal(
      channels.messages.some(({ channel }) => channel === 'stdin' || channel === 'control'),
      false,
    );
  });

  it('strangers that send more messages of comms than wait are disconnected, and the kernel goes on', async () => {
    await using flooding = await jupyter.open(kernelId);
    await using steady = await jupyter.open(kernelId);
    const first = steady.execute('print began\nhang');
    await steady.received(({ content }) => content.text === 'began\n');
    for (let count = 0; count < 10_000; count += 1) flooding.send('comm_msg', { comm_id: 'c', data: {} });
    assert.equal(await flooding.closed(), true);
    assert.equal((await steady.ask('interrupt_request', {}, 'control')).status, 'ok');
    assert.equal((await first).reply.ename, 'KeyboardInterrupt');
    assert.equal((await steady.execute('print 1')).reply.status, 'ok');
  });

  it('strangers reach the operations for messages with a key, a scope and a sandbox of theirs, as those of /v1', async () => {
    const [, sandboxId, contextId] = /(sbx_\w+)-(cctx_\w+)/.exec(kernelId) ?? [];
    const path = `/internal/sandboxes/${sandboxId}/contexts/${contextId}/messages`;
    const message = JSON.stringify({ header: { msg_type: 'complete_request' }, content: {} });
    const body = { language: 'python', message, timeoutMs: 1000 };
    const { key } = await tenants.operator('/keys', { scopes: ['sandbox:read'] });
    for (const [url, sent] of [
      [path, body],
      [`${path}/answers`, { message }],
    ] as const) {
      assert.equal((await tenants.call('wrong', 'POST', url, { body: sent })).status, 401);
      assert.equal((await tenants.call(key.secret, 'POST', url, { body: sent })).status, 403);
      assert.equal((await tenants.call(tenants.keys.foreign, 'POST', url, { body: sent })).status, 404);
      assert.equal(
        (await tenants.call(tenants.keys.whole, 'POST', url, { body: { ...sent, message: 7 } })).status,
        400,
      );
    }
  });

  it('strangers may send the key as a parameter, as browsers do', async () => {
    await using channels = await jupyter.open(kernelId, { inQuery: true });
    assert.equal((await channels.execute('print 1')).reply.status, 'ok');
  });

  it('strangers that send no message of Jupyter are disconnected, and the kernel goes on', async () => {
    const offsets = Buffer.alloc(64, 0xff);
    const frames = ['{', '[]', '{"channel":"shell"}', '{"channel":"iopub","header":{}}', offsets, Buffer.alloc(0)];
    for (const frame of frames) {
      for (const protocol of [undefined, OFFSETS]) {
        const channels = await jupyter.open(kernelId, { protocol });
        channels.sendRaw(frame);
        assert.equal(await channels.closed(), true);
      }
    }
    const large = await jupyter.open(kernelId);
    large.sendRaw(Buffer.alloc(1024 * 1024 + 1));
    assert.equal(await large.closed(), true);
    await using channels = await jupyter.open(kernelId);
    assert.equal((await channels.execute('print 1')).reply.status, 'ok');
  });

  it('strangers get no more requests into a kernel than it takes', async () => {
    await using channels = await jupyter.open(kernelId);
    const first = channels.execute('hang');
    const replies = Array.from({ length: 1010 }, () => channels.execute('print 1'));
    const refused = (await Promise.race(replies)).reply;
    assert.deepEqual([refused.status, refused.ename], ['error', 'Refused']);
    await jupyter.post(`/api/kernels/${kernelId}/interrupt`, {});
    assert.equal((await first).reply.ename, 'KeyboardInterrupt');
    await Promise.all(replies);
  });
});

function sandboxOf(id: string): string {
  return /sbx_\w+/.exec(id)?.[0] ?? '';
}
