import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CommandInfo } from '@cloche/sdk';
import {
  eventStream,
  frame,
  json,
  type Reply,
  sampleCommand,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { exitOf, startCloche } from '../../testing/run-cloche.ts';
import { runInProcess } from '../../testing/run-in-process.ts';

const log = (seq: number, data: string, stream = 'stdout') =>
  frame('log', { seq, stream, data, at: '2026-01-01T00:00:00.000Z' });
const exit = (changes: Partial<CommandInfo>) => frame('exit', sampleCommand(changes));

/** Starts a service that answers requests for the stream of a command with `follow`. */
async function startService(follow: Reply, info: Partial<CommandInfo> = {}) {
  const server = await startScriptedServer(({ path }) => {
    if (path.includes('/stream')) return follow;
    const page = { data: [{ seq: 1, stream: 'stdout', data: 'kept\n', at: '' }], nextSeq: 1, hasMore: false };
    return path.includes('/logs') ? json(200, page) : json(200, { command: sampleCommand(info) });
  });
  return Object.assign(server, { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' } });
}

const stream = (...frames: string[]) => eventStream([...frames, exit({ status: 'exited', exitCode: 0 })]);

it('cloche logs -f goes on over a pause of the sandbox, says so, and ends with the command', async () => {
  const pause = frame('error', { name: 'sandbox_paused', message: 'The sandbox is paused.' });
  const streams = [eventStream([log(1, 'a\n'), pause]), stream(log(2, 'b\n'))];
  await using server = await startScriptedServer(({ path }) => {
    if (path.includes('/stream')) return streams.shift() ?? json(500, {});
    return json(200, path.includes('/commands/') ? { command: sampleCommand() } : { sandbox: sampleSandbox() });
  });
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  const outcome = await runInProcess(['logs', '-f', 'sbx_1', 'cmd_1'], { env });
  assert.deepEqual([outcome.exitCode, outcome.stdout], [0, 'a\nb\n']);
  assert.match(outcome.stderr, /^The sandbox is paused; its output goes on .*\n$/);
});

describe('cloche exec', () => {
  it('cloche exec prints to the streams that the command printed to, and ends with its exit code', async () => {
    await using service = await startService(
      eventStream([log(1, 'a\n'), log(2, 'b\n', 'stderr'), log(3, 'c'), exit({ status: 'exited', exitCode: 42 })]),
    );
    const outcome = await runInProcess(['exec', 'sbx_1', '--', 'ls', '-l', '--json'], service);
    assert.deepEqual(outcome, { exitCode: 42, stdout: 'a\nc', stderr: 'b\n' });
    assert.deepEqual(service.requests[0]?.body, { command: ['ls', '-l', '--json'], background: true });
  });

  it('cloche exec gives one word to the shell, and takes options before the sandbox', async () => {
    await using service = await startService(stream());
    const flags = ['--user', 'root', '--cwd', '/tmp', '-e', 'A=b=c', '--timeout', '90s'];
    await runInProcess(['exec', ...flags, 'sbx_1', 'ls | wc -l'], service);
    const expected = {
      command: 'ls | wc -l',
      background: true,
      cwd: '/tmp',
      env: { A: 'b=c' },
      user: 'root',
      timeoutMs: 90_000,
    };
    assert.deepEqual(service.requests[0]?.body, expected);
  });

  it('cloche exec says at once what an option takes', async () => {
    const wrong = [
      [['--timeout', '2h'], /argument '2h' is invalid\. Give at most 1 h\./],
      [['--timeout', '5'], /Write it as 90s, 10m or 1h30m\./],
      [['--user', 'bob'], /argument 'bob' is invalid\. Allowed choices are user, root\./],
      [['-e', 'A'], /Write it as KEY=VALUE\./],
    ] as const;
    for (const [args, words] of wrong) {
      const { exitCode, stderr } = await runInProcess(['exec', ...args, 'sbx_1', 'true']);
      assert.equal(exitCode, 2);
      assert.match(stderr, words);
    }
  });

  it('cloche exec leaves a detached command running and prints its id', async () => {
    await using service = await startService(stream());
    const outcome = await runInProcess(['exec', '-d', 'sbx_1', 'sleep', '9'], service);
    assert.equal(outcome.stdout, 'cmd_1\n');
    assert.equal(service.requests.length, 1);
  });

  it('cloche exec gives it our standard input', async () => {
    const closed = Promise.withResolvers<void>();
    const server = await startScriptedServer(({ path, body }) => async (response, request) => {
      if ((body as { close?: boolean } | undefined)?.close) closed.resolve();
      if (path.includes('/stream')) await closed.promise;
      await (path.includes('/stream') ? stream() : json(200, { command: sampleCommand() }))(response, request);
    });
    await using _ = server;
    const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
    const { exitCode } = await runInProcess(['exec', '-i', 'sbx_1', 'sort'], { env, input: 'b\na\n' });
    assert.equal(exitCode, 0);
    const sent = server.requests
      .filter(({ path }) => path.endsWith('/stdin'))
      .map(({ body }) => (body as { data: string }).data);
    assert.equal(Buffer.from(sent.join(''), 'base64').toString(), 'b\na\n');
  });

  it('cloche exec kills the command when it is interrupted', async () => {
    await using service = await startService(eventStream([log(1, 'started\n')], { end: false }));
    const child = startCloche(['exec', 'sbx_1', 'sleep', '9'], service);
    child.stdout.once('data', () => child.kill('SIGINT'));
    assert.equal(await exitOf(child), 130);
    assert.match(service.requests.at(-1)?.path ?? '', /\/cmd_1\/kill$/);
  });

  it('cloche exec says why a command failed', async () => {
    const failed = { status: 'failed', exitCode: 127, failureReason: 'nope: No such file or directory' } as const;
    await using service = await startService(eventStream([exit(failed)]));
    const outcome = await runInProcess(['exec', 'sbx_1', 'nope', '-x'], service);
    assert.deepEqual(outcome, { exitCode: 127, stdout: '', stderr: 'nope: No such file or directory\n' });
  });
});

describe('cloche logs', () => {
  it('cloche logs prints what is there, and with -f what comes', async () => {
    await using service = await startService(stream(log(1, 'kept\n'), log(2, 'more\n')));
    assert.equal((await runInProcess(['logs', 'sbx_1', 'cmd_1'], service)).stdout, 'kept\n');
    assert.equal((await runInProcess(['logs', '-f', 'sbx_1', 'cmd_1'], service)).stdout, 'kept\nmore\n');
    for (const flags of [['--json'], ['--json', '-f']]) {
      const { stdout } = await runInProcess(['logs', ...flags, 'sbx_1', 'cmd_1'], service);
      const [first] = stdout.split('\n').map((line) => line && JSON.parse(line));
      assert.deepEqual([first.type, first.data.seq, first.data.data], ['log', 1, 'kept\n']);
    }
  });
});

describe('cloche command', () => {
  it('kills with the signal that is named', async () => {
    await using service = await startService(stream(), { status: 'killed' });
    const outcome = await runInProcess(['command', 'kill', 'sbx_1', 'cmd_1', '-s', 'SIGTERM'], service);
    assert.equal(outcome.stderr, 'cmd_1 killed\n');
    assert.deepEqual(service.requests.at(-1)?.body, { signal: 'SIGTERM' });
    const { exitCode, stderr } = await runInProcess(['command', 'kill', 'sbx_1', 'cmd_1', '-s', 'TERM']);
    assert.equal(exitCode, 2);
    assert.match(stderr, /Allowed choices are .*SIGTERM/);
  });
});
