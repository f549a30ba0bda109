/** Holds E2B's protocol to E2B's own JavaScript clients: the newest ones, and one of half a year ago. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter';
import * as newest from 'e2b';
import * as older from 'e2b-older';
import { sameWithEachServer } from '../support/claims.ts';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let options: E2bOptions;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
});
after(() => service?.close());

const CLIENTS = {
  'the newest client': { client: newest, option: {} },
  'a client of half a year ago': {
    client: older,
    option: sameWithEachServer('each translates its requests; those of the newest client go to several'),
  },
};

for (const [name, { client, option }] of Object.entries(CLIENTS)) {
  const { Sandbox } = client as typeof newest;
  describe(name, option, () => {
    let sandbox: newest.Sandbox;
    before(async () => {
      sandbox = await Sandbox.create({
        ...options,
        timeoutMs: 120_000,
        metadata: { suite: name },
        envs: { COLOR: 'teal' },
      });
    });
    after(() => sandbox?.kill());

    it(`${name} finds the sandbox, connects to it, extends it and lists it`, async () => {
      assert.equal(await sandbox.isRunning(), true);
      const info = await sandbox.getInfo();
      assert.deepEqual([info.sandboxId, info.state, info.metadata], [sandbox.sandboxId, 'running', { suite: name }]);
      await sandbox.setTimeout(600_000);
      assert.ok((await sandbox.getInfo()).endAt > info.endAt);
      const again = await Sandbox.connect(sandbox.sandboxId, options);
      assert.equal((await again.commands.run('echo again')).stdout, 'again\n');
      const listed = await Sandbox.list({ ...options, query: { metadata: { suite: name } } }).nextItems();
      assert.deepEqual(
        listed.map(({ sandboxId }) => sandboxId),
        [sandbox.sandboxId],
      );
    });

    it(`${name} runs a command to its end, with variables, directory, user and output as it comes`, async () => {
      const chunks: string[] = [];
      const result = await sandbox.commands.run('echo $COLOR $SHAPE; pwd; whoami; echo bad >&2', {
        envs: { SHAPE: 'round' },
        cwd: '/tmp',
        onStdout: (text) => void chunks.push(text),
      });
      assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['teal round\n/tmp\nuser\n', 'bad\n', 0]);
      assert.equal(chunks.join(''), result.stdout);
      assert.equal((await sandbox.commands.run('pwd')).stdout, '/home/user\n');
      assert.equal((await sandbox.commands.run('whoami', { user: 'root' })).stdout, 'root\n');
    });

    it(`${name} reports an exit code, and ends a command that takes too long`, async () => {
      const failure = await sandbox.commands.run('exit 3').catch((error) => error);
      assert.ok(failure instanceof client.CommandExitError);
      assert.equal(failure.exitCode, 3);
      const late = await sandbox.commands.run('sleep 60', { timeoutMs: 500 }).catch((error) => error);
      assert.ok(late instanceof client.TimeoutError, String(late));
    });

    it(`${name} runs a command in the background: input, list, connect, kill`, async () => {
      const command = await sandbox.commands.run('cat; sleep 600', { background: true, stdin: true });
      await sandbox.commands.sendStdin(command.pid, 'typed\n');
      await eventually(() => command.stdout === 'typed\n', { because: 'cat repeats what it reads' });
      assert.ok((await sandbox.commands.list()).some(({ pid }) => pid === command.pid));
      const joined = await sandbox.commands.connect(command.pid);
      await eventually(() => joined.stdout === 'typed\n', { because: 'a client that joins reads the output so far' });
      assert.equal(await command.kill(), true);
      await assert.rejects(joined.wait(), client.CommandExitError);
      assert.equal(await sandbox.commands.kill(command.pid), false);
    });

    it(`${name} opens a terminal: input, size, joining, variables, kill and its time limit`, async () => {
      let screen = '';
      const decoder = new TextDecoder();
      const show = (data: Uint8Array) => {
        screen += decoder.decode(data);
      };
      const { pty } = sandbox;
      const terminal = await pty.create({ cols: 101, rows: 31, onData: show, envs: { SHAPE: 'round' }, cwd: '/tmp' });
      const type = (line: string) => pty.sendInput(terminal.pid, new TextEncoder().encode(`${line}\n`));
      await type('stty size; echo "$COLOR-$SHAPE-$PWD-$TERM"');
      await eventually(() => /31 101\r\nteal-round-\/tmp-xterm-256color\r\n/.test(screen), {
        because: 'the shell has a terminal of the requested size',
      });
      await pty.resize(terminal.pid, { cols: 77, rows: 22 });
      await type('stty size');
      await eventually(() => screen.includes('22 77\r\n'), { because: 'the terminal was resized' });
      assert.ok((await sandbox.commands.list()).some(({ pid, cmd }) => pid === terminal.pid && cmd === '/bin/bash'));
      let joined = '';
      const again = await pty.connect(terminal.pid, {
        onData: (data) => {
          joined += Buffer.from(data).toString();
        },
      });
      await type('echo for $((1 + 1))');
      await eventually(() => joined.includes('for 2\r\n') && screen.includes('for 2\r\n'), {
        because: 'both clients see the screen',
      });
      await again.disconnect();
      assert.equal(await pty.kill(terminal.pid), true);
      await assert.rejects(terminal.wait(), client.CommandExitError);
      assert.equal(await pty.kill(terminal.pid), false);
      await assert.rejects(pty.resize(terminal.pid, { cols: 1, rows: 1 }), client.NotFoundError);
      // On a busy machine the time may be up before the terminal is open.
      const short = async () =>
        (await pty.create({ cols: 80, rows: 24, onData: () => undefined, timeoutMs: 500 })).wait();
      await assert.rejects(short, client.TimeoutError);
    });

    it(`${name} writes, reads, lists, moves and removes files`, async () => {
      const { files } = sandbox;
      const written = await files.write('notes/one.txt', 'first');
      assert.deepEqual([written.name, written.path], ['one.txt', '/home/user/notes/one.txt']);
      await files.write([
        { path: 'notes/two.bin', data: new Uint8Array([0, 255, 10]).buffer },
        { path: '/tmp/three.txt', data: new Blob(['third']) },
      ]);
      assert.equal(await files.read('notes/one.txt'), 'first');
      assert.deepEqual(await files.read('notes/two.bin', { format: 'bytes' }), new Uint8Array([0, 255, 10]));
      assert.equal(await (await files.read('/tmp/three.txt', { format: 'blob' })).text(), 'third');
      const streamed = await files.read('notes/one.txt', { format: 'stream' });
      assert.equal(await new Response(streamed).text(), 'first');
      assert.deepEqual((await files.list('notes')).map((entry) => entry.name).sort(), ['one.txt', 'two.bin']);
      const info = await files.getInfo('notes/one.txt');
      assert.deepEqual([info.size, info.permissions, info.owner], [5, '-rw-r--r--', 'user']);
      await files.rename('notes/one.txt', 'notes/moved.txt');
      assert.deepEqual([await files.exists('notes/one.txt'), await files.exists('notes/moved.txt')], [false, true]);
      assert.equal(await files.makeDir('notes/deep/er'), true);
      assert.equal(await files.makeDir('notes/deep/er'), false);
      await files.remove('notes');
      assert.equal(await files.exists('notes'), false);
      await assert.rejects(files.read('notes/moved.txt'), client.NotFoundError);
    });

    it(`${name} watches a directory`, async () => {
      await sandbox.files.makeDir('/tmp/watched');
      const seen: string[] = [];
      const watch = await sandbox.files.watchDir(
        '/tmp/watched',
        (event) => void seen.push(`${event.type} ${event.name}`),
      );
      await sandbox.files.write('/tmp/watched/new.txt', 'x');
      await eventually(() => seen.includes('create new.txt'), { because: 'a file was created' });
      await watch.stop();
    });

    it(`${name} measures the sandbox`, async () => {
      const [latest] = (await sandbox.getMetrics()).slice(-1);
      assert.ok(latest && latest.memTotal > latest.memUsed && latest.memUsed > 0);
    });
  });
}

describe('the code interpreter', () => {
  let sandbox: CodeSandbox;
  before(async () => {
    sandbox = await CodeSandbox.create({ ...options, ...LASTING });
  });
  after(() => sandbox?.kill());

  it('the code interpreter keeps variables, returns the last value, and tells output as it comes', async () => {
    const lines: string[] = [];
    await sandbox.runCode('x = 20');
    const run = await sandbox.runCode('print("hi"); x * 2 + 2', { onStdout: ({ line }) => void lines.push(line) });
    assert.deepEqual([run.text, run.logs.stdout.join(''), lines.join('')], ['42', 'hi\n', 'hi\n']);
    assert.equal((await sandbox.runCode('"quoted"')).text, 'quoted');
  });

  it('the code interpreter reports an error with its traceback, and shows a plot', async () => {
    const { error } = await sandbox.runCode('1 / 0');
    assert.deepEqual([error?.name, error?.value], ['ZeroDivisionError', 'division by zero']);
    assert.match(error?.traceback ?? '', /1 \/ 0/);
    const { results } = await sandbox.runCode('import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()');
    const png = results.map((result) => result.png).find(Boolean);
    assert.equal(
      Buffer.from(png ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
      'PNG',
    );
  });

  it('the code interpreter sets variables of one run, which have their earlier values after it', async () => {
    const envs = { ONE_RUN: 'quo"te\n\\', HOME: '/tmp' };
    for (const [language, read] of [
      ['python', 'import os; [os.environ.get("ONE_RUN"), os.environ["HOME"]]'],
      ['javascript', '[process.env.ONE_RUN, process.env.HOME]'],
    ] as const) {
      const shown = async (options: object) => (await sandbox.runCode(read, { language, ...options })).text;
      const text = await shown({ envs });
      assert.match(text ?? '', /quo"te\\n\\\\', '\/tmp'/);
      assert.match((await shown({})) ?? '', /(None|undefined), '\/home\/user'/);
    }
    const failed = await sandbox.runCode('import os; 1 / int(os.environ["ZERO"])', { envs: { ZERO: '0' } });
    assert.equal(failed.error?.name, 'ZeroDivisionError');
    assert.equal((await sandbox.runCode('os.environ.get("ZERO") is None')).text, 'True');
    await assert.rejects(sandbox.runCode('1', { envs: { 'a=b': 'x' } }), /400/);
  });

  it('the code interpreter has contexts of their own variables, which restart and end', async () => {
    const context = await sandbox.createCodeContext({ cwd: '/tmp' });
    await sandbox.runCode('y = 1', { context });
    assert.equal((await sandbox.runCode('import os; (y, os.getcwd())', { context })).text, "(1, '/tmp')");
    assert.equal((await sandbox.runCode('y')).error?.name, 'NameError');
    assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id));
    await sandbox.restartCodeContext(context);
    assert.equal((await sandbox.runCode('y', { context })).error?.name, 'NameError');
    await sandbox.removeCodeContext(context);
    await assert.rejects(sandbox.runCode('1', { context }));
    assert.equal((await sandbox.runCode('const a: number = 3; a', { language: 'ts' })).text, '3');
  });
});
