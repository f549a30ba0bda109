import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Command as CommandInfo } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import {
  drop,
  eventStream,
  failing,
  frame,
  json,
  type Reply,
  sampleCommand,
  startScriptedServer,
} from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { Command } from './command.ts';
import { Commands } from './commands.ts';

/** A port below the range for sockets that request any free port, so that it stays free while the server is stopped. */
const OWN_PORT = 20_000 + (process.pid % 10_000);

const log = (seq: number, data: string, stream = 'stdout') =>
  frame('log', { seq, stream, data, at: '2026-01-01T00:00:00.000Z' });
const exit = (changes: Partial<CommandInfo> = {}) =>
  frame('exit', sampleCommand({ status: 'exited', exitCode: 0, ...changes }));
const answer = (changes: Partial<CommandInfo> = {}): Reply => json(201, { command: sampleCommand(changes) });

async function startService(...replies: Reply[]) {
  const server = await startScriptedServer(replies);
  const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1 });
  return Object.assign(server, { commands: new Commands(cloche, 'sbx_1') });
}

const calls = (service: { requests: readonly { method: string; path: string }[] }) =>
  service.requests.map(({ method, path }) => `${method} ${path.replace('/v1/sandboxes/sbx_1/commands', '…')}`);

describe('running a command', () => {
  it('waits in one request, whose key every attempt carries', async () => {
    await using service = await startService(drop, answer({ status: 'exited', exitCode: 3, stdout: 'out' }));
    const command = await service.commands.run(['ls', '-l'], { cwd: '/tmp', env: { A: 'b' }, user: 'root' });
    assert.deepEqual([command.exitCode, command.stdout], [3, 'out']);
    assert.deepEqual(service.requests[1]?.body, { command: ['ls', '-l'], cwd: '/tmp', env: { A: 'b' }, user: 'root' });
    const keys = service.requests.map(({ headers }) => headers['idempotency-key']);
    assert.ok(keys[0] && keys[0] === keys[1]);
  });

  it('with callbacks tells them what it prints, and answers with all of it', async () => {
    await using service = await startService(
      answer({ status: 'running' }),
      eventStream([
        log(1, 'a'),
        log(2, 'x', 'stderr'),
        log(3, '[dropped]', 'system'),
        log(4, 'b'),
        exit({ exitCode: 7 }),
      ]),
    );
    const told: string[] = [];
    const onStdout = (text: string) => void told.push(`out ${text}`);
    const onStderr = (text: string) => void told.push(`err ${text}`);
    const command = await service.commands.run('line', { onStdout, onStderr });
    assert.deepEqual(told, ['out a', 'err x', 'err [dropped]', 'out b']);
    assert.deepEqual([command.stdout, command.stderr, command.exitCode], ['ab', 'x', 7]);
    assert.deepEqual(service.requests[0]?.body, { command: 'line', background: true, timeoutMs: 60_000 });
  });

  it('with callbacks keeps as much as one without, and says what it cut', async () => {
    const chunk = 'é'.repeat(1 << 20);
    const chunks = Array.from({ length: 6 }, (_, index) => log(index + 1, chunk));
    await using service = await startService(
      answer({ status: 'running' }),
      eventStream([...chunks, log(7, 'x', 'stderr'), exit({ exitCode: 0 })]),
    );
    let told = 0;
    const onStdout = (text: string) => {
      told += text.length;
    };
    const command = await service.commands.run('line', { onStdout });
    assert.equal(told, 6 << 20);
    assert.deepEqual([command.stdout?.length, command.stderr], [4 << 20, 'x']);
    assert.deepEqual(command.truncated, { stdout: 4 << 20 });
  });

  it('running a command that is aborted kills it', async () => {
    await using service = await startService(
      answer({ status: 'running' }),
      eventStream([log(1, 'a')], { end: false }),
      answer({ status: 'killed' }),
    );
    const abort = new AbortController();
    const reason = new Error('enough');
    const run = service.commands.run('line', { signal: abort.signal, onStdout: () => abort.abort(reason) });
    await assert.rejects(run, reason);
    assert.deepEqual(calls(service).at(-1), 'POST …/cmd_1/kill');
  });

  it('running a command that is aborted while the service starts it kills it', async () => {
    const abort = new AbortController();
    const reason = new Error('enough');
    const rejection = Promise.withResolvers<void>();
    const startLate: Reply = async (...exchange) => {
      abort.abort(reason);
      await rejection.promise;
      await answer({ status: 'running' })(...exchange);
    };
    await using service = await startService(startLate, answer({ status: 'killed' }));
    // Rejects at once, before the service has answered.
    await assert.rejects(service.commands.run('line', { signal: abort.signal }), reason);
    rejection.resolve();
    await eventually(() => calls(service).at(-1) === 'POST …/cmd_1/kill', { because: 'the command is killed' });
  });

  it('running a command that was aborted before is not started', async () => {
    await using service = await startService();
    const signal = AbortSignal.abort(new Error('too late'));
    await assert.rejects(service.commands.run('line', { signal }), /too late/);
    assert.deepEqual(calls(service), []);
  });
});

describe('waiting for a command', () => {
  it('waiting for a command goes on while the service is away for a while', async () => {
    const running: Reply = json(200, { command: sampleCommand({ status: 'running' }) });
    const first = await startScriptedServer(() => running, OWN_PORT);
    // The retries of one request take less time than the absence.
    const cloche = new Cloche({ url: first.url, apiKey: 'clk_test', retryDelayMs: 20, maxRetries: 1 });
    const command = new Command(cloche, sampleCommand({ status: 'running' }));
    const waited = command.wait();
    await eventually(() => first.requests.length >= 2, { because: 'the command is waited for' });
    await first[Symbol.asyncDispose]();
    // The service stays away for longer than the retries of one request take.
    await setTimeout(300);
    await assert.rejects(command.wait({ maxRetries: 0 }), { code: 'unreachable' });
    const ended: Reply = json(200, { command: sampleCommand({ status: 'exited', exitCode: 4 }) });
    await using _ = await startScriptedServer(() => ended, OWN_PORT);
    assert.equal((await waited).exitCode, 4);
  });

  it('waiting for a command goes on where the service went away before it had answered once', async () => {
    const silence: Reply = () => undefined;
    const first = await startScriptedServer(() => silence);
    const cloche = new Cloche({ url: first.url, apiKey: 'clk_test', retryDelayMs: 20, maxRetries: 1 });
    const waited = new Command(cloche, sampleCommand({ status: 'running' })).wait();
    await eventually(() => first.requests.length >= 1, { because: 'the command is waited for' });
    await first[Symbol.asyncDispose]();
    // The service stays away for longer than the retries of one request take.
    await setTimeout(300);
    const ended: Reply = json(200, { command: sampleCommand({ status: 'exited', exitCode: 4 }) });
    await using _ = await startScriptedServer(() => ended, Number(new URL(first.url).port));
    assert.equal((await waited).exitCode, 4);
  });

  it('waiting for a command goes on while the service is stopping, however long that takes', async () => {
    let asked = 0;
    const ended: Reply = json(200, { command: sampleCommand({ status: 'exited', exitCode: 4 }) });
    await using service = await startScriptedServer(() => (++asked < 20 ? failing('unavailable') : ended));
    const cloche = new Cloche({ url: service.url, apiKey: 'clk_test', retryDelayMs: 1, maxRetries: 2 });
    const command = new Command(cloche, sampleCommand({ status: 'running' }));
    assert.equal((await command.wait()).exitCode, 4);
  });

  it('waiting for a command does not press a service that wants to be left alone for longer than a request may take', async () => {
    const refusal = failing('unavailable', { 'retry-after': '3600' });
    await using service = await startScriptedServer(() => refusal);
    const cloche = new Cloche({ url: service.url, apiKey: 'clk_test' });
    const waited = new Command(cloche, sampleCommand({ status: 'running' })).wait({ timeoutMs: 500 });
    await assert.rejects(waited, { code: 'deadline_exceeded' });
    assert.ok(service.requests.length <= 6, `${service.requests.length} requests`);
  });

  it('waiting for a command takes no longer than it may, whether or not the service is there', async () => {
    const first = await startScriptedServer(() => json(200, { command: sampleCommand({ status: 'running' }) }));
    const cloche = new Cloche({ url: first.url, apiKey: 'clk_test', retryDelayMs: 20, maxRetries: 1 });
    const waited = new Command(cloche, sampleCommand({ status: 'running' })).wait({ timeoutMs: 1000 });
    await eventually(() => first.requests.length >= 2, { because: 'the command is waited for' });
    await first[Symbol.asyncDispose]();
    await assert.rejects(waited, { code: 'deadline_exceeded' });
  });
});

describe('following a command', () => {
  it('following a command goes on after a service that was stopping, and gives up one that opens streams and breaks each', async () => {
    const unavailable: Reply = failing('unavailable');
    const opened = eventStream([log(1, 'a')]);
    const refusals = Array.from({ length: 12 }, () => unavailable);
    await using service = await startService(opened, ...refusals, eventStream([log(2, 'b'), exit()]));
    const command = new Command(
      new Cloche({ url: service.url, apiKey: 'clk_test', retryDelayMs: 1, maxRetries: 2 }),
      sampleCommand({ status: 'running' }),
    );
    const told = await Array.fromAsync(command.logs(), ({ data }) => data);
    assert.deepEqual(told, ['a', 'b']);

    const broken = frame('error', { name: 'unavailable', message: 'stopping' });
    await using other = await startScriptedServer(() => eventStream([broken]));
    const cloche = new Cloche({ url: other.url, apiKey: 'clk_test', retryDelayMs: 1, maxRetries: 2 });
    const followed = Array.fromAsync(new Command(cloche, sampleCommand({ status: 'running' })).logs());
    await assert.rejects(followed, { code: 'unavailable' });
    assert.equal(other.requests.length, 3);
  });

  it('following a command goes on where a broken stream ended, and repeats nothing', async () => {
    await using service = await startService(
      answer({ status: 'running' }),
      eventStream([log(1, 'a'), log(2, 'b')]),
      failing('unavailable'),
      eventStream([log(3, 'c'), frame('error', { name: 'unavailable', message: 'stopping' })]),
      eventStream([log(4, 'd'), exit()]),
    );
    const command = await service.commands.start('line');
    const seen: string[] = [];
    for await (const { data } of command.logs()) seen.push(data);
    assert.deepEqual(seen, ['a', 'b', 'c', 'd']);
    assert.equal(command.info.status, 'exited');
    const resumed = calls(service)
      .slice(1)
      .map((call) => call.split('?')[1]);
    assert.deepEqual(resumed, ['afterSeq=0', 'afterSeq=2', 'afterSeq=2', 'afterSeq=3']);
  });

  it('following a command waits for a service that is away for a while, and not for one that never was there', async () => {
    const first = await startScriptedServer(() => eventStream([log(1, 'a')]), OWN_PORT);
    // The retries of one request take less time than the absence.
    const cloche = new Cloche({ url: first.url, apiKey: 'clk_test', retryDelayMs: 20, maxRetries: 1 });
    const params = { sandboxId: 'sbx_1', commandId: 'cmd_1' } as const;
    const events = cloche.follow('streamCommand', { params });
    const seen = [(await events.next()).value];
    await first[Symbol.asyncDispose]();
    const next = events.next();
    // The service stays away for longer than the retries of one request take.
    await setTimeout(300);
    await assert.rejects(cloche.follow('streamCommand', { params }).next(), { code: 'unreachable' });
    await using _ = await startScriptedServer(() => eventStream([log(2, 'b'), exit()]), OWN_PORT);
    seen.push((await next).value, (await events.next()).value);
    assert.deepEqual(
      seen.map((event) => event?.type === 'log' && event.data.data),
      ['a', 'b', false],
    );
  });

  it('ends with the error that the service gives', async () => {
    await using service = await startService(
      answer({ status: 'running' }),
      eventStream([log(1, 'a'), frame('error', { name: 'sandbox_destroyed', message: 'gone' })]),
    );
    const command = await service.commands.start('line');
    await assert.rejects(
      async () => {
        for await (const _ of command.logs());
      },
      { code: 'sandbox_destroyed' },
    );
  });

  it('following a command gives up when the stream breaks off again and again', async () => {
    const server = await startScriptedServer(() => eventStream([]));
    await using _ = server;
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1, maxRetries: 2 });
    await assert.rejects(
      async () => {
        for await (const event of cloche.follow('streamCommand', {
          params: { sandboxId: 'sbx_1', commandId: 'cmd_1' },
        }))
          assert.fail(event.type);
      },
      { code: 'stream_interrupted' },
    );
    assert.equal(server.requests.length, 3);
  });
});

describe('a command', () => {
  it('a command is waited for in as many requests as it takes', async () => {
    await using service = await startService(answer(), answer(), answer(), answer({ status: 'exited', exitCode: 1 }));
    const command = await service.commands.start('line');
    assert.equal((await command.wait()).exitCode, 1);
    assert.equal(calls(service)[1], 'GET …/cmd_1?waitMs=60000');
  });

  it('a command is written to in pieces, bytes as they are, and closed with the last', async () => {
    await using service = await startService(...Array(4).fill(answer()));
    const command = await service.commands.start('line', { stdinOpen: true });
    const bytes = Uint8Array.from({ length: 400_000 }, (_, index) => index % 256);
    await command.sendStdin(bytes, { close: true });
    const bodies = service.requests.slice(1).map(({ body }) => body as { data: string; close: boolean });
    assert.deepEqual(
      bodies.map(({ close }) => close),
      [false, true],
    );
    assert.deepEqual(Buffer.concat(bodies.map(({ data }) => Buffer.from(data, 'base64'))), Buffer.from(bytes));
  });

  it('a command is killed with the signal that is named', async () => {
    await using service = await startService(answer(), answer({ status: 'killed', signal: 'SIGTERM' }));
    const command = await service.commands.start('line');
    assert.equal((await command.kill('SIGTERM')).info.signal, 'SIGTERM');
    assert.deepEqual(service.requests[1]?.body, { signal: 'SIGTERM' });
  });

  it('a command is killed by its id', async () => {
    await using service = await startService(answer({ status: 'running' }), answer({ status: 'killed' }));
    const { info } = await service.commands.kill('cmd_1', 'SIGTERM');
    assert.equal(info.status, 'killed');
    assert.deepEqual(calls(service), ['GET …/cmd_1', 'POST …/cmd_1/kill']);
    assert.deepEqual(service.requests[1]?.body, { signal: 'SIGTERM' });
  });

  it('a command is found by its id, and listed', async () => {
    await using service = await startService(answer(), json(200, { data: [sampleCommand()], hasMore: false }));
    assert.equal((await service.commands.get('cmd_1')).id, 'cmd_1');
    assert.deepEqual(
      (await service.commands.list()).map(({ id }) => id),
      ['cmd_1'],
    );
  });
});
