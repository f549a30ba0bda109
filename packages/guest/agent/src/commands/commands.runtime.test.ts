import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sleepers } from '../../testing/process-readings.ts';
import { isGone, StartedCommands } from '../../testing/started-commands.ts';

let commands: StartedCommands;
before(async () => {
  commands = await StartedCommands.start();
});
after(() => commands[Symbol.asyncDispose]());

describe('a command', () => {
  it('answers with what it printed to each stream, and how it ended', async () => {
    const { stdout, stderr, command } = await commands.run('echo out; echo err >&2; exit 3');
    assert.deepEqual([stdout, stderr], ['out\n', 'err\n']);
    assert.deepEqual([command.status, command.exitCode, command.signal], ['exited', 3, undefined]);
    assert.ok((command.durationMs ?? -1) >= 0);
  });

  it('a command tells a signal from an exit with the same number', async () => {
    const exited = (await commands.run('exit 137')).command;
    assert.deepEqual([exited.exitCode, exited.signal], [137, undefined]);
    const killed = (await commands.run('kill -SEGV $$')).command;
    assert.deepEqual([killed.status, killed.exitCode, killed.signal], ['exited', 139, 'SIGSEGV']);
  });

  it('a command gets its arguments as they are, line feeds and emptiness included', async () => {
    const words = ['', 'a b', 'line\nfeed', '$HOME', "it's", '日本', '-n'];
    const { stdout } = await commands.run(['/usr/bin/printf', '[%s]', ...words]);
    assert.equal(stdout, words.map((word) => `[${word}]`).join(''));
  });

  it('a command takes ten thousand arguments', async () => {
    const { stdout } = await commands.run(['/bin/bash', '-c', 'echo $#', 'x', ...Array(10_000).fill('argument')]);
    assert.equal(stdout, '10000\n');
  });

  it('a command that cannot be started is failed with the exit code of a shell, and says why in its standard error', async () => {
    const outcomes = {
      '/no-such-program': [127, 'No such file or directory'],
      '/tmp': [126, 'Permission denied'],
      '/etc/passwd': [126, 'Permission denied'],
    } as const;
    for (const [program, [exitCode, reason]] of Object.entries(outcomes)) {
      const { command, stderr } = await commands.run([program]);
      assert.deepEqual([command.status, command.exitCode], ['failed', exitCode], program);
      assert.equal(stderr, `${program}: ${reason}\n`);
      assert.equal(command.failureReason, `${program}: ${reason}`);
    }
    const long = await commands.run(['/bin/echo', 'x'.repeat(200_000)]);
    assert.deepEqual([long.command.exitCode, long.stderr], [126, '/bin/echo: Argument list too long\n']);
  });

  it('a command runs as the user, or as root, with its environment and no other', async () => {
    const script = 'id -u; id -G; echo $HOME $FOO $PWD; env | grep -c ^CLOCHE_';
    const asUser = await commands.run(script, { env: { FOO: 'a=b\nc' } });
    assert.equal(
      asUser.stdout,
      `1000\n1000\n${join(commands.agent.folder, 'home')} a=b c ${commands.agent.workspace}\n0\n`,
    );
    assert.match((await commands.run(script, { user: 'root' })).stdout, /^0\n.*\n\/root /);
  });

  it('a command has real pipes, which it may open by name', async () => {
    const { stdout, stderr } = await commands.run('echo one > /dev/stdout; echo two > /dev/stderr; cat < /dev/stdin', {
      stdin: 'three',
    });
    assert.deepEqual([stdout, stderr], ['one\nthree', 'two\n']);
  });

  it('a command is refused a folder that does not exist, or that its user may not enter', async () => {
    const missing = await commands.put('cwd-1', 'true', { cwd: '/no/such/folder' });
    assert.equal(missing.status, 400);
    assert.match(JSON.stringify(missing.body), /invalid_cwd/);
    const closed = join(commands.agent.folder, 'closed');
    mkdirSync(closed, { mode: 0o700 });
    assert.match(JSON.stringify((await commands.put('cwd-2', 'true', { cwd: closed })).body), /invalid_cwd/);
    assert.equal((await commands.put('cwd-3', 'true', { cwd: closed, user: 'root' })).status, 200);
  });

  it('a command is started once, however often it is asked for', async () => {
    const file = join(commands.agent.workspace, 'count');
    await Promise.all([1, 2, 3].map(() => commands.put('once', `echo x >> ${file}`)));
    await commands.result('once');
    await commands.put('once', `echo x >> ${file}`);
    assert.equal((await commands.run(`cat ${file}`)).stdout, 'x\n');
  });

  it('a command answers when it ends, even if a process holds its pipes open, and processes that it left go on', async () => {
    const { stdout, command } = await commands.run('setsid sleep 300 & echo $!');
    assert.equal(command.status, 'exited');
    const pid = Number(stdout);
    process.kill(pid, 0);
    await commands.kill(command.id);
    assert.ok(await isGone(pid));
  });

  it('a command lets what it left print on without a reader', async () => {
    const file = join(commands.agent.workspace, 'alive');
    const { command } = await commands.run(
      `(sleep 0.3; for n in {1..20000}; do echo some more words; done; touch ${file}) &`,
    );
    assert.equal(command.exitCode, 0);
    assert.equal(
      (await commands.run(`until [ -e ${file} ]; do sleep 0.05; done`, { timeoutMs: 20_000 })).command.exitCode,
      0,
    );
  });
});

/** Scripts that print the pid of a process that tries to survive, and never end by themselves. */
const survivors: [string, string][] = [
  ['traps SIGTERM', 'trap "" TERM; echo $$; while :; do sleep 1; done'],
  [
    'forks twice and leaves its session',
    '(setsid bash -c "(trap \\"\\" TERM HUP; echo \\$BASHPID; exec sleep 300) &"); sleep 300',
  ],
  [
    'clears its environment, forks twice and closes its pipes',
    'mkfifo -m 600 f$$; (env -i /usr/bin/setsid /bin/bash -c "(trap \\"\\" TERM; echo \\$BASHPID > f$$; exec /bin/sleep 300 >/dev/null 2>&1 </dev/null) &"); cat f$$; sleep 300',
  ],
  ['stops itself', 'echo $$; kill -STOP $$'],
];

/** Timeout that leaves a busy machine enough time to print the pid. */
const SURVIVAL_MS = 3000;

// Concurrent, because the tests mostly wait.
describe('a process that tries to survive', { concurrency: true }, () => {
  for (const [deed, script] of survivors) {
    it(`a process that tries to survive and ${deed} ends with the time of its command`, async () => {
      const { stdout, command } = await commands.run(script, { timeoutMs: SURVIVAL_MS });
      assert.equal(command.status, 'timed_out');
      assert.ok(Number(stdout) > 1, stdout);
      assert.ok(await isGone(Number(stdout)));
    });

    it(`a process that tries to survive and ${deed} ends when its command is killed`, async () => {
      const id = await commands.start(script);
      await commands.printed(id, '\n');
      const { body } = await commands.kill(id);
      assert.equal((body as { status: string }).status, 'killed', JSON.stringify(body));
      const [entry] = (await commands.log(id)).entries;
      assert.ok(await isGone(Number(entry?.data)));
    });
  }
});

describe('what watches over a command', () => {
  it('what watches over a command cannot be killed by it', async () => {
    const { stdout, command } = await commands.run('kill -9 $PPID && echo gone; echo $PPID');
    assert.equal(command.status, 'exited', JSON.stringify(command));
    assert.match(stdout, /^\d+\n$/);
  });

  it('what watches over a command is gone when nothing of the command is left', async () => {
    const { stdout } = await commands.run('echo $PPID');
    assert.ok(await isGone(Number(stdout)));
  });
});

describe('a fork bomb', () => {
  it('ends with the time of its command', async () => {
    const seconds = `61.${process.pid}`;
    const bomb = `ulimit -u 400; f() { f | f & sleep ${seconds}; }; f; echo unreachable; sleep 60`;
    const { command, stdout } = await commands.run(bomb, { timeoutMs: 500 });
    assert.equal(command.status, 'timed_out');
    assert.equal(stdout, '');
    // The command's first process has ended by then; its descendants are being killed.
    await eventually(() => sleepers(seconds) === 0, { because: 'the processes of the command end' });
  });
});

describe('signals', () => {
  it('signals reach every process of a command', async () => {
    const script =
      'trap "echo parent" USR1; bash -c "trap \\"echo child\\" USR1; echo ready; while :; do sleep 0.05; done" & while :; do wait; done';
    const id = await commands.start(script);
    await commands.printed(id, 'ready');
    await commands.kill(id, 'SIGUSR1');
    await commands.printed(id, 'parent');
    await commands.printed(id, 'child');
    assert.equal((await commands.get(id)).status, 'running');
    await commands.kill(id);
  });

  it('signals that a command answers by an exit of its own leave it exited', async () => {
    const id = await commands.start('trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done');
    await commands.printed(id, 'ready');
    await commands.kill(id, 'SIGTERM');
    const { command } = await commands.result(id);
    assert.deepEqual([command.status, command.exitCode], ['exited', 7]);
    assert.equal(((await commands.kill(id)).body as { status: string }).status, 'exited');
  });
});

describe('a signal that was sent', () => {
  it('a signal that was sent makes a command killed when it dies of that one, not of another', async () => {
    const id = await commands.start('trap "kill -SEGV $$" USR1; echo ready; while :; do sleep 0.05; done');
    await commands.printed(id, 'ready');
    await commands.kill(id, 'SIGUSR1');
    const { command } = await commands.result(id);
    assert.deepEqual([command.status, command.signal], ['exited', 'SIGSEGV']);
    const other = await commands.start('echo ready; while :; do sleep 0.05; done');
    await commands.printed(other, 'ready');
    await commands.kill(other, 'SIGTERM');
    assert.equal((await commands.result(other)).command.status, 'killed');
  });
});

describe('standard input', () => {
  it('standard input is empty unless it is given', async () => {
    assert.equal((await commands.run('wc -c')).stdout, '0\n');
  });

  it('standard input is what was given, however much, then ends', async () => {
    const stdin = 'é\n'.repeat(400_000);
    assert.equal((await commands.run('md5sum; exec <&-', { stdin })).stdout, `${md5(stdin)}  -\n`);
  });

  it('standard input stays open for what is written while the command runs', async () => {
    const id = await commands.start('while read line; do echo "got $line"; done; echo end', {
      stdinOpen: true,
      stdin: 'one\n',
    });
    await commands.printed(id, 'got one');
    assert.equal((await commands.write(id, 'two\n')).status, 204);
    await commands.printed(id, 'got two');
    await commands.write(id, 'three\n', true);
    assert.equal((await commands.result(id)).stdout, 'got one\ngot two\ngot three\nend\n');
    assert.equal((await commands.write(id, 'late')).status, 409);
  });

  it('standard input that no client reads does not keep a command from ending', async () => {
    const { command } = await commands.run('exec <&-; exit 5', { stdin: 'x'.repeat(3_000_000) });
    assert.equal(command.exitCode, 5, JSON.stringify(command));
  });
});

function md5(text: string): string {
  return createHash('md5').update(text).digest('hex');
}

describe('the log', () => {
  it('the log has every byte once and in order, while it is written', async () => {
    const id = await commands.start('for n in {1..3000}; do echo "line $n"; echo "warn $n" >&2; done');
    let afterSeq = 0;
    const text = { stdout: '', stderr: '', system: '' };
    for (;;) {
      const { status } = await commands.get(id);
      const { entries, hasMore } = await commands.log(id, afterSeq, 7);
      for (const entry of entries) {
        assert.equal(entry.seq, afterSeq + 1);
        afterSeq = entry.seq;
        text[entry.stream] += entry.data;
      }
      if (status !== 'running' && !hasMore && entries.length === 0) break;
    }
    const expected = (word: string) => Array.from({ length: 3000 }, (_, n) => `${word} ${n + 1}\n`).join('');
    assert.equal(text.stdout, expected('line'));
    assert.equal(text.stderr, expected('warn'));
    assert.equal(text.system, '');
  });

  it('the log is followed to the end, from anywhere', async () => {
    const id = await commands.start('echo one; sleep 0.1; echo two; sleep 0.1; echo three');
    const all = [];
    for await (const event of commands.follow(id)) all.push(event);
    assert.equal(all.at(-1)?.type, 'exit');
    const entries = all.flatMap((event) => (event.type === 'log' ? [event.entry] : []));
    // A busy machine reads two lines at once.
    assert.equal(entries.map(({ data }) => data).join(''), 'one\ntwo\nthree\n');
    const rest = [];
    for await (const event of commands.follow(id, 2)) rest.push(event);
    assert.deepEqual(rest, all.slice(2));
  });

  it('the log keeps the latest of 100 MB, says what it dropped, and is on disk for root alone', async () => {
    const id = await commands.start('yes 0123456789abcde | head -c 100000000; echo; echo the end');
    const { stdout, truncated } = await commands.result(id);
    const kept = stdout.slice(0, stdout.lastIndexOf('[cloche: ')).trimEnd();
    // JSON takes two characters for the end of a line.
    assert.ok(Math.abs(JSON.stringify(kept).length - (1 << 20)) < 20);
    assert.ok(Math.abs((truncated?.stdout ?? 0) + kept.length - 100_000_009) < 2);
    assert.ok(stdout.endsWith('bytes of stdout cut; the limit is 1048576 bytes as JSON]\n'));
    const { entries, hasMore } = await commands.log(id);
    assert.ok(hasMore);
    assert.equal(entries[0]?.stream, 'system');
    let bytes = 0;
    let last = '';
    const dropped = Number(/(\d+) bytes dropped/.exec(entries[0]?.data ?? '')?.[1]);
    for await (const event of commands.follow(id)) {
      if (event.type === 'exit' || event.entry.stream === 'system') continue;
      bytes += event.entry.data.length;
      last = event.entry.data;
    }
    assert.ok(last.endsWith('the end\n'));
    assert.ok(bytes > 14 << 20 && bytes < 18 << 20, `${bytes}`);
    // The counted bytes include the overhead of entries.
    assert.ok(Math.abs(bytes + dropped - 100_000_009) < 2_000_000, `${dropped}`);
    assert.equal((await commands.run(`ls ${join(commands.agent.folder, 'logs', id)}`)).command.exitCode, 2);
    const { stdout: disk } = await commands.run(`du -sm ${join(commands.agent.folder, 'logs', id)}`, { user: 'root' });
    assert.ok(Number.parseInt(disk, 10) <= 18, disk);
  });

  it('the log splits no character, and replaces invalid bytes', async () => {
    const id = await commands.start("for n in {1..30000}; do printf '日本é😀'; done; printf 'a\\xffb\\xe6'");
    await commands.result(id);
    const { entries } = await commands.log(id);
    assert.ok(entries.length > 1);
    const text = entries.map(({ data }) => data).join('');
    assert.ok(text === `${'日本é😀'.repeat(30_000)}a\ufffdb\ufffd`);
  });
});
