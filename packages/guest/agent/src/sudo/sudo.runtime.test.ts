import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { staticProgram } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { StartedAgent } from '../../testing/started-agent.ts';

const PROGRAM = staticProgram('sudo');
const USER = { uid: 1000, gid: 1000 };

let agent: StartedAgent;
before(async () => {
  agent = await StartedAgent.start('', { CLOCHE_SUDO_SOCKET: '/run/cloche-sudo-test.sock' });
  assert.equal((await agent.call('PUT', '/sudo')).status, 204);
});
after(() => agent?.[Symbol.asyncDispose]());

const SOCKET = '/run/cloche-sudo-test.sock';
const own = (...args: string[]) => [PROGRAM, SOCKET, ...args];

interface Options {
  readonly env?: Record<string, string>;
  readonly input?: string | Buffer;
  readonly as?: { uid: number; gid: number };
  readonly socket?: string;
}

/** Starts `sudo` as the user of a sandbox. */
function start(args: readonly string[], { env = {}, as = USER, socket = SOCKET }: Options = {}) {
  const all = { PATH: '/tmp/planted:/usr/bin:/bin', HOME: '/home/user', SHELL: '/bin/bash', ...env };
  return spawn(PROGRAM, [socket, ...args], { cwd: '/tmp', env: all, ...as });
}

async function sudo(args: readonly string[], options: Options = {}) {
  const child = start(args, options);
  child.stdin.on('error', () => undefined).end(options.input ?? '');
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { stdout, stderr, code: signal ?? code };
}

describe('sudo', { skip: needsRoot }, () => {
  const FOO = { FOO: 'bar' };
  const SHOWN = ['sh', '-c', 'echo "$FOO $HOME $USER $LOGNAME"'];
  const PATH = ['sh', '-c', 'case $PATH in *planted*) echo planted;; *) echo own;; esac'];
  /** Arguments, the variables of the caller, and what is printed, as sudo's manual and Debian's rules say. */
  const CALLS: readonly [args: string[], env: Record<string, string>, stdout: string][] = [
    [['id', '-u'], {}, '0\n'],
    [['--', 'id', '-u'], {}, '0\n'],
    [['-n', 'id', '-un'], {}, 'root\n'],
    [['-nu', 'nobody', 'id', '-un'], {}, 'nobody\n'],
    [['-unobody', 'id', '-un'], {}, 'nobody\n'],
    [['-u', '#1000', 'id', '-u'], {}, '1000\n'],
    [['--user=nobody', 'id', '-un'], {}, 'nobody\n'],
    [['--user', 'nobody', '--non-interactive', 'id', '-un'], {}, 'nobody\n'],
    [['-g', 'nogroup', 'id', '-gn'], {}, 'nogroup\n'],
    [['-H', '-S', '-p', 'x', 'id', '-u'], {}, '0\n'],
    [SHOWN, FOO, ' /root root root\n'],
    [['-E', ...SHOWN], FOO, 'bar /home/user root root\n'],
    [['--preserve-env=FOO,HOME', ...SHOWN], FOO, 'bar /home/user root root\n'],
    [['-EH', ...SHOWN], FOO, 'bar /root root root\n'],
    [['FOO=a b', ...SHOWN], FOO, 'a b /root root root\n'],
    [['-E', 'FOO=', ...SHOWN], FOO, ' /home/user root root\n'],
    [PATH, {}, 'own\n'],
    [['-E', ...PATH], {}, 'own\n'],
    [['sh', '-c', 'echo $SUDO_USER $SUDO_UID $SUDO_GID'], {}, 'user 1000 1000\n'],
    [['sh', '-c', 'echo $TERM $LC_ALL'], { TERM: 'dumb', LC_ALL: 'C' }, 'dumb C\n'],
    [['pwd'], {}, '/tmp\n'],
    [['-D', '/usr', 'pwd'], {}, '/usr\n'],
    [['-i', 'pwd'], {}, '/root\n'],
    [['-i', 'echo', 'a  b', '$HOME', ';', 'é'], {}, 'a  b /root ; é\n'],
    [['-s', 'echo', 'x'], {}, 'x\n'],
    [['-v'], {}, ''],
    [['-k'], {}, ''],
    [['-l'], {}, 'User 1000 may run all commands: (ALL : ALL) NOPASSWD: ALL\n'],
  ];
  for (const [args, env, expected] of CALLS) {
    it(`${args.join(' ')} with ${JSON.stringify(env)}`, async () => {
      const { stdout, stderr, code } = await sudo(args, { env });
      assert.deepEqual([stdout.replace(/^User \S+/, 'User 1000'), stderr, code], [expected, '', 0]);
    });
  }

  /** Calls that are refused, or end otherwise than with 0. */
  const ENDS: readonly [args: string[], code: number | string, stderr: RegExp][] = [
    [['sh', '-c', 'exit 7'], 7, /^$/],
    [['sh', '-c', 'kill -KILL $$'], 'SIGKILL', /^$/],
    [['sh', '-c', 'kill -TERM $$'], 'SIGTERM', /^$/],
    [['false'], 1, /^$/],
    [['nonesuch', 'x'], 1, /^sudo: nonesuch: command not found$/],
    [['/nonesuch'], 1, /command not found$/],
    [['/etc/passwd'], 1, /command not found$/],
    [['-u', 'nonesuch', 'id'], 1, /unknown user nonesuch$/],
    [['-g', 'nonesuch', 'id'], 1, /unknown group nonesuch$/],
    [['-D', '/nonesuch', 'id'], 1, /No such file/],
    [['-e', 'x'], 1, /-e is not supported/],
    [['-q', 'x'], 1, /invalid option -- 'q'/],
    [['-u'], 1, /requires an argument/],
    [[], 1, /^usage:/],
    [['sh', '-c', 'echo error >&2; exit 3'], 3, /^error$/],
  ];
  for (const [args, code, stderr] of ENDS) {
    it(`${args.join(' ')} ends with ${code}`, async () => {
      const ended = await sudo(args);
      assert.equal(ended.code, code);
      assert.match(ended.stderr.trimEnd(), stderr);
    });
  }

  it('sudo passes input on to its end, however much, and keeps the order of one pipe', async () => {
    const input = Buffer.alloc(5_000_000, 'abc\n');
    assert.equal((await sudo(['wc', '-c'], { input })).stdout.trim(), '5000000');
    assert.equal((await sudo(['cat'], { input })).stdout, input.toString());
    assert.equal((await sudo(['head', '-c', '3'], { input })).stdout, 'abc');
    const mixed = 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done';
    const shell = spawn('sh', ['-c', 'exec "$0" "$@" 2>&1', ...own('sh', '-c', mixed)], USER);
    assert.equal(await text(shell.stdout), '1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n6\n6\n7\n7\n8\n8\n9\n9\n');
  });

  it('sudo passes signals on', async () => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const) {
      const name = signal.slice(3);
      const child = start(['sh', '-c', `trap "echo got; exit 3" ${name}; echo ready; while :; do sleep 0.05; done`]);
      await once(child.stdout, 'data');
      child.kill(signal);
      const [[code], rest] = await Promise.all([once(child, 'close'), text(child.stdout)]);
      assert.deepEqual([code, rest], [3, 'got\n'], signal);
    }
  });

  it('sudo ends the command with its caller, also one that takes no input', async () => {
    for (const [signal, args] of [
      ['SIGKILL', ['sleep', '4711']],
      ['SIGINT', ['sleep', '4711']],
    ] as const) {
      const child = start(args);
      child.stdin.on('error', () => undefined).write(Buffer.alloc(4_000_000));
      await eventually(() => isRunning('4711'), { because: 'the command runs' });
      child.kill(signal);
      await eventually(() => !isRunning('4711'), { because: 'the command has ended' });
    }
  });

  it('sudo leaves what a command has started in the background', async () => {
    assert.equal((await sudo(['sh', '-c', 'sleep 4712 >/dev/null 2>&1 & echo started'])).stdout, 'started\n');
    await eventually(() => isRunning('4712'), { because: 'it was started' });
    await sudo(['pkill', '-f', 'sleep 4712']);
  });

  it('sudo gives a command a terminal of its own in a terminal', async () => {
    const program = `
import pty, os, sys, time, fcntl, termios, struct
pid, fd = pty.fork()
if pid == 0:
    os.setgid(1000); os.setuid(1000)
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('4H', 33, 111, 0, 0))
seen = b''
sent = False
while True:
    try: part = os.read(fd, 4096)
    except OSError: break
    if not part: break
    seen += part
    if b'ready' in seen and not sent:
        sent = True
        os.write(fd, b'\\x03')
print(seen.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;
    const line =
      'sleep 0.3; test -t 0 && test -t 2 && stty size; trap "echo interrupted; exit 4" INT; echo ready; sleep 60';
    const child = spawn('python3', ['-c', program, ...own('sh', '-c', line)]);
    const printed = await text(child.stdout);
    assert.match(printed, /^33 111\r\nready\r\n\^Cinterrupted\r\n 4\n$/);
  });

  it('sudo is of the user of the sandbox and of root alone', async () => {
    const stranger = await sudo(['id'], { as: { uid: 65_534, gid: 65_534 } });
    assert.match(stranger.stderr, /no answer: Permission denied/);
    assert.equal((await sudo(['id', '-u'], { as: { uid: 0, gid: 0 } })).stdout, '0\n');
    assert.equal((await sudo(own('id', '-u'))).stdout, '0\n');
  });

  it('sudo says why there is none', async () => {
    const { stderr, code } = await sudo(['id'], { socket: '/run/nonesuch.sock' });
    assert.match(
      stderr,
      /^sudo: only sandboxes that E2B's clients have created have sudo, unless .*CLOCHE_E2B_SUDO=off/,
    );
    assert.equal(code, 1);
  });

  it('sudo refuses a request that is too long, broken or of too many', async () => {
    const frame = (type: string, body: string) => {
      const head = Buffer.alloc(5);
      head.write(type);
      head.writeUInt32BE(body.length, 1);
      return Buffer.concat([head, Buffer.from(body)]);
    };
    const part = frame('A', 'x'.repeat(4096));
    const fields = (...values: string[]) => [frame('A', values.join('\0')), frame('S', '')];
    const BROKEN: readonly [Buffer[], RegExp][] = [
      [Array.from({ length: 600 }, () => part), /the command is too long/],
      [fields(''), /not understood/],
      [fields('root', '', '', '', 'tmp', '80 24', '1', 'id', '0'), /not understood/],
      [fields('root', '', '', '', '/tmp', '0 24', '1', 'id', '0'), /not understood/],
      [fields('root', '', '', '', '/tmp', '80 24', '-1', '0'), /not found/],
      [fields('root', '', '', '', '/tmp', '80 24', '999999999', 'nonesuch'), /not found/],
      [[frame('I', 'x')], /too long/],
      [[frame('A', 'x'.repeat(5000))], /^$/],
    ];
    for (const [frames, answer] of BROKEN) {
      const socket = connect(SOCKET).on('error', () => undefined);
      socket.write(Buffer.concat(frames));
      assert.match((await text(socket).catch(() => '')).slice(5), answer);
    }
    const silent = Array.from({ length: 64 }, () => connect(SOCKET).on('error', () => undefined));
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    assert.match((await sudo(['id'])).stderr, /the agent has closed the connection|Broken pipe/);
    for (const socket of silent) socket.destroy();
    await eventually(async () => (await sudo(['id', '-u'])).stdout === '0\n', { because: 'there is room again' });
  });
});

function isRunning(argument: string): boolean {
  const { readdirSync } = process.getBuiltinModule('node:fs');
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${argument}\0`;
    } catch {
      return false;
    }
  });
}
