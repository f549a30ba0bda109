import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { TERMINAL_PROTOCOL } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { StartedAgent } from '../../testing/started-agent.ts';

const WOKEN = { entropy: Buffer.alloc(32).toString('base64'), now: Date.now() };
const MADE = 'made-while-closed';
/** A body that each of these requests takes. */
const COMMAND = { argv: ['true'], cwd: '/', env: {}, user: 'user', stdinOpen: false, logBytes: 1000 };
const CONTEXT = { language: 'javascript', cwd: '/', timeoutMs: 1000 };

/** Requests that a closed gate refuses: at least one of each kind. ID is a running command, MADE a new file. */
const REFUSED: readonly [method: string, path: string, body?: object][] = [
  ['PUT', '/environment', { env: {} }],
  ['PUT', '/sudo'],
  ['PUT', '/spare-kernels/javascript'],
  ['PUT', '/contexts/cctx_new', CONTEXT],
  ['DELETE', '/contexts/cctx_kept'],
  ['POST', '/contexts/cctx_kept/interrupt'],
  ['POST', '/contexts/cctx_kept/messages', { message: '{}' }],
  ['POST', '/contexts/cctx_kept/restart'],
  ['PUT', '/commands/cmd_new', COMMAND],
  ['POST', '/commands/ID/stdin', { dataBase64: '', close: true }],
  ['POST', '/commands/ID/kill', { signal: 'SIGKILL' }],
  ['POST', '/commands/ID/prevent', {}],
  ['POST', '/commands/ID/logs', { afterSeq: 0, limit: 1 }],
  ['POST', '/commands/ID/follow', { afterSeq: 0 }],
  ['POST', '/commands/ID/result', {}],
  ['GET', '/commands/ID/end'],
  ['GET', '/files?path=.&depth=1&limit=10'],
  ['GET', '/files/stat?path=.'],
  ['GET', '/files/content?path=kept'],
  ['PUT', `/files/content?path=${MADE}`, {}],
  ['POST', `/files/directories?path=${MADE}`],
  ['POST', `/files/copy?from=kept&to=${MADE}&overwrite=true`],
  ['POST', `/files/move?from=kept&to=${MADE}&overwrite=true`],
  ['DELETE', '/files?path=kept'],
  ['GET', '/files/watch?path=.&recursive=false'],
  ['GET', '/files/archive?path=.&format=tar'],
  ['PUT', '/files/archive?path=.', {}],
  ['GET', '/nothing'],
  // Looks like one that passes.
  ['GET', '/health/x'],
  ['POST', '/health'],
  ['GET', '/contexts/cctx_kept'],
  ['GET', '/%63ommands/ID/end'],
];
const PASSING = ['/health', '/activity', '/contexts', '/commands/ID'];

const pause = (agent: StartedAgent, token: string, force = false) => agent.call('POST', '/pause', { token, force });
const resume = (agent: StartedAgent, token: string) => agent.call('POST', '/resume', { token, ...WOKEN });

/** Starts a command whose output no request waits for. */
async function startInBackground(agent: StartedAgent): Promise<string> {
  const { status } = await agent.call('PUT', '/commands/cmd_background', { ...COMMAND, argv: ['sleep', '1000'] });
  assert.equal(status, 200);
  return 'cmd_background';
}

async function upgrade(agent: StartedAgent, path: string, protocol: string): Promise<[Socket, string]> {
  const socket = connect(join(agent.folder, 'agent.sock'));
  socket.write(`GET ${path} HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`);
  const [head] = await once(socket, 'data');
  return [socket, String(head)];
}
const TERMINAL = '/terminals/pty_1?columns=80&rows=24&user=user&idleMs=60000';

const codeOf = ({ body }: { body: unknown }) => (body as { error?: { code: string } } | undefined)?.error?.code;

describe('a paused agent', () => {
  it('a paused agent refuses all that starts work or reaches files, executes nothing of it, and takes it when it resumes', async () => {
    await using agent = await StartedAgent.start();
    const id = await startInBackground(agent);
    await agent.open('javascript', 'cctx_kept');
    await agent.run('cctx_kept', 'const kept = 41');
    writeFileSync(join(agent.workspace, 'kept'), 'kept');
    const own = (path: string) => path.replace('ID', encodeURIComponent(id));
    for (let times = 0; times < 2; times += 1) {
      assert.deepEqual(await pause(agent, 'pse_1'), { status: 200, body: { isPaused: true } });
    }
    for (const [method, path, body] of REFUSED) {
      const answer = await agent.call(method, own(path), body);
      assert.deepEqual([answer.status, codeOf(answer)], [409, 'pausing'], `${method} ${path}`);
      // The gate opens by itself after a while, and this machine may be slow.
      await pause(agent, 'pse_1');
    }
    assert.equal((await agent.call('HEAD', '/files/content?path=kept')).status, 423);
    for (const path of PASSING) assert.equal((await agent.call('GET', own(path))).status, 200, path);
    await assert.rejects(agent.run('cctx_kept', 'kept + 1'), /refused with pausing/);
    await assert.rejects(agent.run('cctx_new', '1', { open: CONTEXT as never }), /refused with pausing/);
    for (const [path, protocol] of [
      [TERMINAL, TERMINAL_PROTOCOL],
      ['/ports/80', 'cloche-tunnel'],
    ] as const) {
      const [, head] = await upgrade(agent, path, protocol);
      assert.match(head, /^HTTP\/1\.1 409 [\s\S]*pausing/);
    }
    await resume(agent, 'pse_other');
    assert.equal(codeOf(await agent.call('GET', '/files/stat?path=kept')), 'pausing');
    for (let times = 0; times < 2; times += 1) {
      assert.deepEqual(await resume(agent, 'pse_1'), { status: 200, body: {} });
    }
    assert.equal(readFileSync(join(agent.workspace, 'kept'), 'utf8'), 'kept');
    assert.equal(existsSync(join(agent.workspace, MADE)), false);
    assert.deepEqual((await agent.run('cctx_kept', 'console.log(kept + 1)')).stdout, '42\n');
    assert.equal(((await agent.call('GET', `/commands/${id}`)).body as { status: string }).status, 'running');
    assert.equal((await agent.call('GET', '/commands/cmd_new')).status, 404);
  });

  it('a paused agent has no transfer in progress if it is paused for want of use', async () => {
    await using agent = await StartedAgent.start();
    const socket = connect(join(agent.folder, 'agent.sock'));
    socket.write(
      'PUT /files/content?path=slow HTTP/1.1\r\nhost: agent\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n',
    );
    const [asked] = await once(socket, 'data');
    assert.match(String(asked), /^HTTP\/1\.1 100 /);
    socket.write('half ');
    const idle = (token: string) => agent.call('POST', '/pause', { token, force: false, isIdle: true });
    assert.equal((await idle('pse_1')).status, 409);
    socket.write('whole');
    await once(socket, 'data');
    await eventually(async () => (await idle('pse_1')).status === 200, { because: 'the upload is over' });
    socket.destroy();
    await resume(agent, 'pse_1');
    assert.equal(readFileSync(join(agent.workspace, 'slow'), 'utf8'), 'half whole');
  });

  it('a paused agent has no run or waited command: it says how many there are, or ends them if it is forced', async () => {
    await using agent = await StartedAgent.start();
    const background = await startInBackground(agent);
    await agent.open('javascript', 'cctx_a');
    const hang = 'console.log("begun"); for (;;) {}';
    const run = await agent.start('cctx_a', hang);
    await run[Symbol.asyncIterator]().next();
    const queued = await agent.start('cctx_a', 'console.log("not executed")');
    const waited = { ...COMMAND, argv: ['sleep', '1000'], capture: { stdoutBytes: 10, stderrBytes: 10 } };
    assert.equal((await agent.call('PUT', '/commands/cmd_waited', waited)).status, 200);
    const refused = { error: { code: 'running', message: '3 runs and commands are in progress.', running: 3 } };
    await eventually(
      async () => {
        const { status, body } = await pause(agent, 'pse_1');
        return status === 409 && JSON.stringify(body) === JSON.stringify(refused);
      },
      { because: 'the run that waits has arrived' },
    );
    assert.equal((await agent.call('GET', '/files/stat?path=.')).status, 200, 'the gate is open');

    const results = Promise.all([run.result(), queued.result()]);
    const begun = performance.now();
    assert.equal((await pause(agent, 'pse_1', true)).status, 200);
    assert.ok(performance.now() - begun < 2000 * 5, 'a busy machine may be slower than the limit of two seconds');
    for (const { done, stdout } of await results) {
      assert.deepEqual([done.error?.name, stdout], ['CanceledError', '']);
    }
    const statusOf = async (id: string) =>
      ((await agent.call('GET', `/commands/${id}`)).body as { status: string }).status;
    assert.equal(await statusOf('cmd_waited'), 'killed');
    assert.equal(await statusOf(background), 'running');
    await resume(agent, 'pse_1');
    assert.equal((await agent.run('cctx_a', 'console.log(6 * 7)')).stdout, '42\n');
  });

  it('a paused agent has ended the streams and terminals of clients, and their terminals go on', async () => {
    await using agent = await StartedAgent.start();
    const id = await startInBackground(agent);
    const [terminal] = await upgrade(agent, TERMINAL, TERMINAL_PROTOCOL);
    const watch = await agent.request('GET', '/files/watch?path=.&recursive=false');
    const follow = await agent.request('POST', `/commands/${id}/follow`, { afterSeq: 0 });
    const ends = Promise.all(
      [terminal, watch, follow].map((stream) => {
        stream.on('error', () => undefined).resume();
        return once(stream, 'close').catch(() => undefined);
      }),
    );
    const end = agent.call('GET', `/commands/${id}/end`);
    await pause(agent, 'pse_1');
    await ends;
    await resume(agent, 'pse_1');
    const [again, head] = await upgrade(agent, '/terminals/pty_1', TERMINAL_PROTOCOL);
    assert.match(head, /^HTTP\/1\.1 101 /);
    again.destroy();
    // Who waits for the end of a command goes on waiting.
    await agent.call('POST', `/commands/${id}/kill`, { signal: 'SIGKILL' });
    assert.equal(((await end).body as { status: string }).status, 'killed');
  });

  it('a paused agent counts no time of commands', async () => {
    await using agent = await StartedAgent.start();
    const timeoutMs = 1500;
    await agent.call('PUT', '/commands/cmd_timed', { ...COMMAND, argv: ['sleep', '1000'], timeoutMs });
    const begun = performance.now();
    await pause(agent, 'pse_1');
    while (performance.now() - begun < 2 * timeoutMs) await pause(agent, 'pse_1');
    const statusOf = async () => ((await agent.call('GET', '/commands/cmd_timed')).body as { status: string }).status;
    assert.equal(await statusOf(), 'running');
    await resume(agent, 'pse_1');
    await eventually(async () => (await statusOf()) === 'timed_out', { because: 'the rest of its time is over' });
  });

  it('a paused agent is not made by a request that does not match the protocol', async () => {
    await using agent = await StartedAgent.start();
    const forged = [
      {},
      [],
      null,
      'x',
      { token: 1, force: false },
      { token: 'a', force: 'yes' },
      { token: '', force: true },
    ];
    for (const body of [...forged, { token: 'a'.repeat(10_000), force: true }, { force: true }]) {
      for (const path of ['/pause', '/resume']) {
        assert.equal(codeOf(await agent.call('POST', path, body)), 'bad_request', `${path} ${JSON.stringify(body)}`);
      }
    }
    assert.equal((await agent.call('GET', '/files/stat?path=.')).status, 200);
  });
});
