import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('supervise.pl', import.meta.url));

let supervisor: ChildProcess | undefined;
afterEach(() => supervisor?.kill('SIGKILL'));

/** Starts the program and writes the pieces to it, one at a time. Returns the frames that it sends, in order. */
function framesOf(...pieces: readonly Buffer[]): Promise<[type: string, body: string][]> {
  return framesWith({}, ...pieces);
}

/** Starts the program as `framesOf` does, with further variables. */
async function framesWith(env: NodeJS.ProcessEnv, ...pieces: readonly Buffer[]): Promise<[string, string][]> {
  supervisor = spawn('perl', [PROGRAM, process.arch], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  });
  const socket = supervisor.stdio[3] as Socket;
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  await once(socket, 'close', { signal: AbortSignal.timeout(20_000) });
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

/** Returns the frame that starts a command as the user of this test. */
function start(
  argv: readonly string[],
  { cwd = '/', input = false, environment = [] as readonly string[] } = {},
): Buffer {
  const ids = [process.getuid?.(), process.getgid?.()].map(String);
  const fields = ['pipes', ...ids, cwd, input ? '1' : '', '', '', String(argv.length), ...argv, ...environment];
  return frame('S', fields.join('\0'));
}

const ofType = (frames: readonly [string, string][], type: string) =>
  frames.flatMap(([each, body]) => (each === type ? [body] : [])).join('');

describe('the supervisor of a command', () => {
  for (const file of [
    PROGRAM,
    fileURLToPath(new URL('../../../../host/setup/src/templates/enter-root.pl', import.meta.url)),
  ]) {
    it(`is written in Perl without warnings: ${file.split('/').at(-1)}`, () => {
      const { stderr } = spawnSync('perl', ['-wc', file], { encoding: 'utf8' });
      assert.equal(stderr, `${file} syntax OK\n`);
    });
  }

  it('says that the command runs, what it prints, and how it ended, in this order', async () => {
    const frames = await framesOf(start(['/bin/sh', '-c', 'printf out; printf err >&2; exit 7']));
    assert.equal(frames[0]?.[0], 'P');
    assert.deepEqual([ofType(frames, 'O'), ofType(frames, 'E')], ['out', 'err']);
    assert.deepEqual(frames.at(-1), ['X', 'exit 7']);
  });

  it('reads frames that arrive in pieces, and several in one piece', async () => {
    const whole = start(['/bin/cat'], { input: true });
    const rest = Buffer.concat([whole.subarray(9), frame('I', 'a'), frame('I', 'bc'), frame('I'), frame('C')]);
    const frames = await framesOf(whole.subarray(0, 3), whole.subarray(3, 9), rest);
    assert.equal(ofType(frames, 'O'), 'abc');
    assert.deepEqual(frames.at(-1), ['X', 'exit 0']);
  });

  it('carries more input than a pipe holds', async () => {
    const text = 'x'.repeat(300_000);
    const frames = await framesOf(start(['/usr/bin/wc', '-c'], { input: true }), frame('I', text), frame('C'));
    assert.equal(ofType(frames, 'O').trim(), '300000');
  });

  const compiler = spawnSync('cc', ['--version']).status === 0;
  it('notices an end that comes right before it waits', { skip: !compiler && 'there is no C compiler' }, async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'cloche-late-select-'));
    // Each `select` begins a second late. The command ends before the second one waits, and prints nothing by then.
    const source = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/select.h>
#include <unistd.h>
int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t) {
  usleep(900000);
  return ((int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select"))(n, r, w, e, t);
}`;
    const library = join(folder.path, 'late-select.so');
    const { stderr } = spawnSync('cc', ['-shared', '-fPIC', '-x', 'c', '-o', library, '-'], {
      input: source,
      encoding: 'utf8',
    });
    assert.equal(stderr, '');
    const command = start(['/bin/sh', '-c', 'exec >&- 2>&-; sleep 1.35; exit 3']);
    assert.deepEqual((await framesWith({ LD_PRELOAD: library }, command)).at(-1), ['X', 'exit 3']);
  });

  it('starts the command with no signal blocked', async () => {
    const frames = await framesOf(start(['/bin/grep', 'SigBlk', '/proc/self/status']));
    assert.equal(Number.parseInt(ofType(frames, 'O').split('\t')[1] ?? '', 16), 0);
  });

  it('tells a signal from an exit', async () => {
    assert.deepEqual((await framesOf(start(['/bin/sh', '-c', 'kill -TERM $$']))).at(-1), ['X', 'signal 15']);
  });

  it('gives the command its directory and the variables of the request alone', async () => {
    const frames = await framesOf(start(['/bin/sh', '-c', 'pwd; env'], { cwd: '/usr', environment: ['A=b=c'] }));
    const lines = ofType(frames, 'O').trim().split('\n');
    assert.equal(lines[0], '/usr');
    assert.ok(lines.includes('A=b=c'));
    assert.ok(!lines.some((line) => line.startsWith('HOME=')));
  });

  for (const [cause, request] of [
    ['missing', start(['/nowhere/program'])],
    ['exec', start(['/etc/passwd'])],
    ['cwd', start(['/bin/true'], { cwd: '/nowhere' })],
  ] as const) {
    it(`says why a command could not be started: ${cause}`, async () => {
      const frames = await framesOf(request);
      assert.equal(frames.length, 1);
      assert.match(`${frames[0]?.[0]} ${frames[0]?.[1]}`, new RegExp(`^F ${cause} \\S`));
    });
  }
});
