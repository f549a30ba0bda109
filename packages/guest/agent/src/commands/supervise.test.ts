import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, it } from 'node:test';
import { staticProgram } from '@cloche/layout';

const PROGRAM = staticProgram('supervise');
const SOURCES = join(dirname(PROGRAM), '..');

/** The emulator of the other processor. */
const EMULATOR = 'qemu-aarch64-static';

let supervisor: ChildProcess | undefined;
afterEach(() => supervisor?.kill('SIGKILL'));

/** Starts the program and writes the pieces to it, one at a time. Returns the frames that it sends, in order. */
function framesOf(...pieces: readonly Buffer[]): Promise<[type: string, body: string][]> {
  return framesFrom([PROGRAM], ...pieces);
}

/** Starts a command line that runs the program, as `framesOf` does. */
async function framesFrom([file = '', ...args]: readonly string[], ...pieces: readonly Buffer[]) {
  supervisor = spawn(file, args, { env: { SECRET: 'x' }, stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  const socket = supervisor.stdio[3] as Socket;
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => undefined);
  const closed = once(socket, 'close', { signal: AbortSignal.timeout(20_000) });
  for (const piece of pieces) {
    if (!socket.destroyed) await Promise.race([closed, new Promise((resolve) => socket.write(piece, resolve))]);
  }
  await closed;
  const received = Buffer.concat(chunks);
  const frames: [string, string][] = [];
  for (let at = 0; at < received.length; at += 5 + received.readUInt32BE(at + 1)) {
    const end = at + 5 + received.readUInt32BE(at + 1);
    frames.push([received.toString('latin1', at, at + 1), received.toString('utf8', at + 5, end)]);
  }
  return frames;
}

function frame(type: string, body = ''): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeUInt32BE(Buffer.byteLength(body), 1);
  return Buffer.concat([head, Buffer.from(body)]);
}

interface StartOptions {
  readonly cwd?: string;
  readonly input?: boolean;
  readonly environment?: readonly string[];
  readonly mode?: string;
  readonly size?: readonly [columns: string, rows: string];
}

/** Returns the frame that starts a command as the user of this test. */
function start(argv: readonly string[], options: StartOptions = {}): Buffer {
  const { cwd = '/', input = false, environment = [], mode = 'pipes', size = ['', ''] } = options;
  const ids = [process.getuid?.(), process.getgid?.()].map(String);
  const fields = [mode, ...ids, cwd, input ? '1' : '', ...size, String(argv.length), ...argv, ...environment];
  return frame('S', fields.join('\0'));
}

const ofType = (frames: readonly [string, string][], type: string) =>
  frames.flatMap(([each, body]) => (each === type ? [body] : [])).join('');

describe('the supervisor of a command', () => {
  it('says that the command runs, what it prints, and how it ended, in this order', async () => {
    const frames = await framesOf(start(['/bin/sh', '-c', 'printf out; printf err >&2; exit 7']));
    assert.equal(frames[0]?.[0], 'P');
    assert.deepEqual([ofType(frames, 'O'), ofType(frames, 'E')], ['out', 'err']);
    assert.deepEqual(frames.at(-1), ['X', 'exit 7']);
  });

  it('the supervisor of a command reads frames that arrive in pieces, and several in one piece', async () => {
    const whole = start(['/bin/cat'], { input: true });
    const rest = Buffer.concat([whole.subarray(9), frame('I', 'a'), frame('I', 'bc'), frame('I'), frame('C')]);
    const frames = await framesOf(whole.subarray(0, 3), whole.subarray(3, 9), rest);
    assert.equal(ofType(frames, 'O'), 'abc');
    assert.deepEqual(frames.at(-1), ['X', 'exit 0']);
  });

  it('the supervisor of a command carries more input than a pipe holds', async () => {
    const text = 'x'.repeat(300_000);
    const frames = await framesOf(start(['/usr/bin/wc', '-c'], { input: true }), frame('I', text), frame('C'));
    assert.equal(ofType(frames, 'O').trim(), '300000');
  });

  const compiler = spawnSync('cc', ['--version']).status === 0;
  it('the supervisor of a command notices an end that comes right before it waits', {
    skip: !compiler && 'there is no C compiler',
  }, async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'cloche-late-wait-'));
    // Each wait begins a second late. The command ends before the second one begins, and prints nothing by then.
    const source = `
#include "system.h"
static long wait_late(descriptors *reads, descriptors *writes) {
  const long time[2] = {0, 900000000};
  CALL_2(__NR_nanosleep, time, NULL);
  return wait_for(reads, writes);
}
#define wait_for wait_late
#include "supervise.c"`;
    const program = join(folder.path, 'supervise');
    const flags = ['-w', '-O1', '-ffreestanding', '-nostdlib', '-fpie', '-static-pie', '-fno-stack-protector'];
    const files = ['-I.', '-o', program, '-x', 'c', '-', 'command.c', 'system.c'];
    const { stderr } = spawnSync('cc', [...flags, ...files], {
      cwd: SOURCES,
      input: source,
      encoding: 'utf8',
    });
    assert.equal(stderr, '');
    const command = start(['/bin/sh', '-c', 'exec >&- 2>&-; sleep 1.35; exit 3']);
    assert.deepEqual((await framesFrom([program], command)).at(-1), ['X', 'exit 3']);
  });

  it('the supervisor of a command starts the command with no signal blocked', async () => {
    const frames = await framesOf(start(['/bin/grep', 'SigBlk', '/proc/self/status']));
    assert.equal(Number.parseInt(ofType(frames, 'O').split('\t')[1] ?? '', 16), 0);
  });

  it('the supervisor of a command tells a signal from an exit', async () => {
    assert.deepEqual((await framesOf(start(['/bin/sh', '-c', 'kill -TERM $$']))).at(-1), ['X', 'signal 15']);
  });

  it('the supervisor of a command gives the command its directory and the variables of the request alone', async () => {
    const frames = await framesOf(start(['/bin/sh', '-c', 'pwd; env'], { cwd: '/usr', environment: ['A=b=c'] }));
    const lines = ofType(frames, 'O').trim().split('\n');
    assert.equal(lines[0], '/usr');
    assert.ok(lines.includes('A=b=c'));
    assert.ok(!lines.some((line) => line.startsWith('SECRET=')), 'the variable of the supervisor');
  });

  /** Commands that cannot be started, with the cause and the reason, as execvp and strerror of glibc have them. */
  const TEN_MEGABYTES = 'x'.repeat(10_000_000);
  const FAILURES: readonly [argv: string[], options: StartOptions, failure: string][] = [
    [['/nowhere/program'], {}, 'missing No such file or directory'],
    [['nonesuch'], { environment: ['PATH=/usr/bin:/bin'] }, 'missing No such file or directory'],
    [[''], {}, 'missing No such file or directory'],
    [['/etc/passwd'], {}, 'exec Permission denied'],
    [['/etc'], {}, 'exec Permission denied'],
    [['passwd'], { environment: ['PATH=/nowhere:/etc'] }, 'exec Permission denied'],
    [['/etc/passwd/x'], {}, 'exec Not a directory'],
    [[`/${'x'.repeat(5000)}`], {}, 'exec File name too long'],
    [['x'.repeat(256)], {}, 'exec File name too long'],
    [['/bin/true', 'x'.repeat(200_000)], {}, 'exec Argument list too long'],
    [['/bin/true', ...Array(1_100_000).fill('')], {}, 'exec Argument list too long'],
    [['/bin/true', TEN_MEGABYTES], {}, 'exec Argument list too long'],
    [['/bin/true'], { environment: [`A=${TEN_MEGABYTES}`] }, 'exec Argument list too long'],
    [['/bin/true'], { cwd: '/nowhere' }, 'cwd No such file or directory'],
    [['/bin/true'], { cwd: '' }, 'cwd No such file or directory'],
    [['/bin/true'], { cwd: '/etc/passwd' }, 'cwd Not a directory'],
    [['/bin/true'], { cwd: `/${'x'.repeat(300)}` }, 'cwd File name too long'],
  ];
  for (const [index, [argv, options, failure]] of FAILURES.entries()) {
    it(`the supervisor of a command says why a command could not be started: ${index}, ${failure}`, async () => {
      assert.deepEqual(await framesOf(start(argv, options)), [['F', failure]]);
    });
  }

  it('searches a program and runs a script without a first line, as execvp', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'cloche-scripts-'));
    await writeFile(join(folder.path, 'script'), 'echo "$0" "$@"\n', { mode: 0o755 });
    const { path } = folder;
    const CALLS: readonly [argv: string[], environment: string[], printed: string][] = [
      [[`${path}/script`, 'a b', 'c'], [], `${path}/script a b c\n`],
      [['script', 'a'], [`PATH=/nowhere:${path}:/bin`], `${path}/script a\n`],
      [['script'], ['PATH=/nowhere:'], 'script\n'],
      [['script'], ['PATH='], 'script\n'],
      [['./script'], ['PATH=/bin'], './script\n'],
      [['script'], [`PATH=/${'x'.repeat(5000)}:/etc/passwd:${path}`], `${path}/script\n`],
      [['echo', 'x'], [], 'x\n'],
      [['echo', ''], ['NAME', 'B=c'], '\n'],
    ];
    for (const [argv, environment, printed] of CALLS) {
      assert.equal(ofType(await framesOf(start(argv, { cwd: path, environment })), 'O'), printed, argv.join(' '));
    }
  });

  it('the supervisor of a command gives a terminal its size, its input and its end', async () => {
    const shell = ['/bin/sh', '-c', 'stty -echo; stty size; read x; stty size; echo "$x"; test -t 0 && test -t 2'];
    const command = start(shell, { mode: 'terminal', size: ['80', '24'], environment: ['PATH=/usr/bin:/bin'] });
    const frames = await framesOf(command, frame('R', '111 33'), frame('I', 'text\n'), frame('C'));
    assert.match(ofType(frames, 'O'), /33 111\r\ntext\r\n$/);
    assert.deepEqual(frames.at(-1), ['X', 'exit 0']);
  });

  it('the supervisor of a command ends without a command when the first frame is none that starts one', async () => {
    const fields = (...values: string[]) => frame('S', values.join('\0'));
    const BROKEN: Record<string, Buffer> = {
      'another type': frame('I', 'x'),
      'no field': frame('S'),
      'too few fields': fields('pipes', '0', '0', '/', '', '', ''),
      'another mode': fields('pipe', '0', '0', '/', '', '', '', '1', '/bin/true'),
      'a user below zero': fields('pipes', '-1', '0', '/', '', '', '', '1', '/bin/true'),
      'a user that setresuid ignores': fields('pipes', '4294967295', '0', '/', '', '', '', '1', '/bin/true'),
      'a group that setresgid ignores': fields('pipes', '0', '4294967295', '/', '', '', '', '1', '/bin/true'),
      'a user beyond all numbers': fields('pipes', '9'.repeat(40), '0', '/', '', '', '', '1', '/bin/true'),
      'no argument': fields('pipes', '0', '0', '/', '', '', '', '0'),
      'more arguments than fields': fields('pipes', '0', '0', '/', '', '', '', '2', '/bin/true'),
      'a number of arguments that is none': fields('pipes', '0', '0', '/', '', '', '', '1x', '/bin/true'),
      'a size beyond the terminal': fields('terminal', '0', '0', '/', '', '65536', '24', '1', '/bin/true'),
      'half of a head': Buffer.from('S\0\0'),
      'half of a body': start(['/bin/true']).subarray(0, 20),
    };
    for (const [name, request] of Object.entries(BROKEN)) {
      const program = spawn(PROGRAM, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
      const exit = once(program, 'exit');
      const socket = program.stdio[3] as Socket;
      socket.on('error', () => undefined).end(request);
      assert.deepEqual(await exit, [1, null], name);
      assert.equal(socket.read(), null, name);
    }
  });

  it('the supervisor of a command survives frames that make no sense', async () => {
    // The same bytes in each run.
    let state = 1;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    for (let round = 0; round < 150; round++) {
      const request = start(['/bin/cat'], { input: true, mode: round % 3 === 0 ? 'terminal' : 'pipes' });
      const rest = Buffer.concat(
        Array.from({ length: 20 }, () => frame('ICRSZ'[random(5)] ?? '', 'x'.repeat(random(9) ** 5))),
      );
      for (let times = random(8); times > 0; times--) rest[random(rest.length)] = random(256);
      if (round % 2 === 0) request[5 + random(request.length - 5)] = random(256);
      const program = spawn(PROGRAM, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
      const exit = once(program, 'exit', { signal: AbortSignal.timeout(20_000) });
      const socket = program.stdio[3] as Socket;
      socket.on('error', () => undefined).resume();
      socket.end(Buffer.concat([request, rest]));
      const [status, signal] = await exit;
      assert.ok(signal === null && status <= 1, `round ${round}: ${status} ${signal}`);
    }
  });

  const emulated = spawnSync(EMULATOR, ['--version']).status === 0;
  it('the supervisor of a command is the same on arm64', {
    skip: !emulated && `${EMULATOR} is not installed`,
  }, async () => {
    const arm64 = [EMULATOR, staticProgram('supervise', 'arm64')];
    const line = 'cat; echo "$@"; echo error >&2; kill -TERM $$';
    const command = start(['/bin/sh', '-c', line, '-', 'a', 'b c'], { input: true, environment: ['PATH=/bin'] });
    const frames = await framesFrom(arm64, command, frame('I', 'input '), frame('C'));
    assert.deepEqual([ofType(frames, 'O'), ofType(frames, 'E')], ['input a b c\n', 'error\n']);
    assert.deepEqual(frames.at(-1), ['X', 'signal 15']);
    assert.deepEqual(await framesFrom(arm64, start(['nonesuch'])), [['F', 'missing No such file or directory']]);
  });
});
