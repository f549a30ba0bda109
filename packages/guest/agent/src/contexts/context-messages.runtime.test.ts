import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentRunEvent } from '@cloche/protocol';
import { describePython } from '../../testing/describe-python.ts';
import type { RunOptions } from '../../testing/started-agent.ts';

// biome-ignore lint/suspicious/noExplicitAny: messages are read field by field
type Message = any;

describePython('messages of clients to the kernel of a Python context', (python) => {
  const start = (type: string, content: object, options: RunOptions = {}) => {
    const message = JSON.stringify({ header: { msg_id: 'm', msg_type: type }, content });
    return python.agent.start(python.context, '', { message, ...options });
  };
  const send = async (type: string, content: object, options?: RunOptions) => {
    const result = await (await start(type, content, options)).result();
    const told = result.events.flatMap(readMessage);
    return { ...result, told, reply: told.find(({ channel }) => channel === 'shell')?.content };
  };
  const execute = (code: string, more: object = {}, options?: RunOptions) =>
    send('execute_request', { code, ...more }, options);

  test('messages of clients to the kernel of a Python context are answered in order with what the run prints', async () => {
    const code = 'print(1)\ndisplay(2)\nprint(3)\nget_ipython().kernel.send("iopub", "comm_msg", {})\nprint(4)\n5';
    for (let round = 0; round < 20; round++) {
      const { events, reply, stdout } = await execute(code);
      const order = events.map((event) => readMessage(event)[0]?.type ?? event.type);
      const [display, message, result] = ['display_data', 'comm_msg', 'execute_result'].map((type) =>
        order.indexOf(type),
      );
      assert.deepEqual(order.slice(-3), ['execute_result', 'execute_reply', 'done'], order.join());
      assert.ok((display ?? 0) < (message ?? 0) && (message ?? 0) < (result ?? 0), order.join());
      const before = (index = 0) =>
        events.slice(0, index).flatMap((event) => (event.type === 'stdout' ? event.data : []));
      assert.deepEqual([before(display).join(''), before(message).join(''), stdout], ['1\n', '1\n3\n', '1\n3\n4\n']);
      assert.equal(reply.status, 'ok');
    }
  });

  test('messages of clients to the kernel of a Python context answer questions about code without counting a cell', async () => {
    const { reply: first } = await execute('value_of_tests = 1');
    const completed = await send('complete_request', { code: 'value_of_te', cursor_pos: 11 });
    assert.deepEqual(completed.reply.matches, ['value_of_tests']);
    const { reply } = await send('is_complete_request', { code: 'for n in x:' });
    assert.deepEqual([reply.status, reply.indent], ['incomplete', '    ']);
    assert.equal((await execute('None')).reply.execution_count, first.execution_count + 1);
  });

  test('run in turn with the runs of other clients, which have none of it', async () => {
    const { stdout } = await python.agent.run(python.context, 'print(input.__module__)');
    assert.equal(stdout, 'builtins\n');
    const { events } = await python.agent.run(python.context, 'get_ipython().kernel.send("iopub", "comm_msg", {})');
    assert.deepEqual(
      events.map(({ type }) => type),
      ['done'],
    );
  });

  test('messages of clients to the kernel of a Python context ask the client for a line of input, which only the run that waits for it gets', async () => {
    const answers = `/contexts/${python.context}/messages`;
    const answer = (value: unknown) =>
      python.agent.call('POST', answers, { message: JSON.stringify({ content: { value } }) });
    assert.equal((await answer('early')).status, 204);
    const run = await start('execute_request', { code: 'print(input("?"))', allow_stdin: true });
    const request = await run[Symbol.asyncIterator]().next();
    assert.deepEqual(readMessage(request.value as AgentRunEvent)[0]?.content, { prompt: '?', password: false });
    assert.equal((await answer('Ada')).status, 204);
    assert.equal((await run.result()).stdout, 'Ada\n');
    assert.equal((await python.agent.call('POST', answers, { message: 7 })).status, 400);
    assert.equal((await python.agent.call('POST', '/contexts/none/messages', { message: '' })).status, 404);
  });

  test('messages of clients to the kernel of a Python context ask on when a client answers with what is no line of input', async () => {
    const answers = `/contexts/${python.context}/messages`;
    const run = await start('execute_request', { code: 'input()', allow_stdin: true });
    await run[Symbol.asyncIterator]().next();
    const line = '{"content":{"value":"Ada"}}';
    for (const message of ['{', '[]', '{"content":7}', '{"content":{"value":7}}', line])
      await python.agent.call('POST', answers, { message });
    const { done } = await run.result();
    assert.deepEqual([done.error, done.stateLost], [undefined, undefined]);
  });

  test('messages of clients to the kernel of a Python context ask the client to exit, which keeps the variables; other runs end their cell', async () => {
    await execute('kept = 7');
    for (const code of ['exit', 'quit', 'exit()', 'quit(3)']) {
      const { reply, done } = await execute(code);
      assert.equal(done.error, undefined, code);
      assert.deepEqual(reply.payload, [{ source: 'ask_exit', keepkernel: false }], code);
    }
    const { done } = await python.agent.run(python.context, 'exit');
    assert.equal(done.error?.name, 'SystemExit');
    assert.equal((await python.agent.run(python.context, 'print(kept)')).stdout, '7\n');
  });

  test('messages of clients to the kernel of a Python context are interrupted while they wait for input, and keep the variables', async () => {
    await execute('kept = 7');
    const run = await start('execute_request', { code: 'input()', allow_stdin: true });
    await run[Symbol.asyncIterator]().next();
    await python.agent.call('POST', `/contexts/${python.context}/interrupt`);
    const { done } = await run.result();
    assert.deepEqual([done.error?.name, done.stateLost], ['KeyboardInterrupt', undefined]);
    assert.equal((await execute('kept')).told[0]?.content.data['text/plain'], '7');
  });

  test('messages of clients to the kernel of a Python context count as outputs, so that a flood of them and large ones are bounded', async () => {
    const tell = 'tell = lambda data: get_ipython().kernel.send("iopub", "comm_msg", {"data": data})\n';
    const large = await execute(`${tell}tell("x" * 2000)\ntell("small")`, {}, { limits: { outputBytes: 1000 } });
    assert.match(large.outputs[0]?.value ?? '', /message output of \d+ bytes as JSON left out/);
    assert.deepEqual(
      large.told.map(({ type }) => type),
      ['comm_msg', 'execute_reply'],
    );
    const many = await execute(`${tell}for n in range(10_010): tell(n)`);
    assert.equal(many.told.length, 9_999);
    assert.match(many.outputs[0]?.value ?? '', /further outputs left out/);
    const all = await execute(`${tell}for n in range(100): tell("x" * 900)`, {}, { limits: { outputsBytes: 10_000 } });
    assert.ok(all.told.length < 12, String(all.told.length));
  });

  test('messages of clients to the kernel of a Python context that are malformed fail by themselves', async () => {
    for (const message of ['{', '7', '{"header":{}}', '{"header":{"msg_type":"execute_request"},"content":{}}']) {
      const { done } = await python.agent.run(python.context, '', { message });
      assert.ok(done.error, message);
    }
    assert.equal((await execute('None')).reply.status, 'ok');
  });
});

function readMessage(event: AgentRunEvent): Message[] {
  return event.type === 'message' ? [JSON.parse(event.data)] : [];
}
