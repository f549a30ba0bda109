import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Program, runProgram } from './run-program.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-program-'));
after(() => rmSync(folder, { recursive: true }));

const PATH = process.env.PATH ?? '';

/** Runs a shell script and returns its output. */
async function run(script: string, changes: Partial<Program> = {}) {
  const output = join(folder, 'output');
  const fd = openSync(output, 'w');
  try {
    const program = { file: 'sh', args: ['-c', script], env: { PATH }, descriptors: [fd, fd, fd], timeoutMs: 20_000 };
    const end = await runProgram({ ...program, ...changes });
    return { end, output: readFileSync(output, 'utf8').trim() };
  } finally {
    closeSync(fd);
  }
}

test('a program runs with the given arguments, variables and descriptors, and its exit code or signal is returned', async () => {
  const { end, output } = await run('echo "$0 $1 $NAME"; exit 7', {
    args: ['-c', 'echo "$0 $1 $NAME"; exit 7', 'a b', 'ü'],
    env: { PATH, NAME: 'value' },
  });
  assert.deepEqual([end.code, end.signal, output], [7, undefined, 'a b ü value']);
  const killed = await run('kill -TERM $$');
  assert.deepEqual([killed.end.code, killed.end.signal], [undefined, 15]);
});

test('it has the given descriptors and no others, whatever their numbers are in this process', async () => {
  const output = join(folder, 'descriptors');
  const [fd, other] = [openSync(output, 'w'), openSync(import.meta.filename, 'r')];
  try {
    // Descriptors 2 and 0 each have a number that another descriptor is to get.
    const descriptors = [2, fd, 0, other, other];
    const args = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => `/proc/self/fd/${number}`);
    await runProgram({ file: 'readlink', args, env: { PATH }, descriptors, timeoutMs: 20_000 });
    const expected = descriptors.map((number) => readlinkSync(`/proc/self/fd/${number}`));
    assert.deepEqual(readFileSync(output, 'utf8').trim().split('\n'), expected);
    assert.notEqual(expected[0], expected[2]);
  } finally {
    closeSync(fd);
    closeSync(other);
  }
});

test('it never gets another descriptor of this process in place of an invalid one', async () => {
  await assert.rejects(run('', { descriptors: [2 ** 30, 1, 2] }), { code: 'EBADF' });
});

test('signals that this process ignores or blocks have their default effect in the program', async () => {
  const { output } = await run('grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status');
  const expected = execFileSync('grep', ['-E', '^Sig(Blk|Ign|Cgt)', '/proc/self/status'], { encoding: 'utf8' });
  assert.equal(output, expected.trim());
  assert.match(readFileSync('/proc/self/status', 'utf8'), /^SigIgn:\s+\d*1000$/m, 'Node ignores SIGPIPE');
});

test('a program that cannot be started causes its system error, and one that takes too long is killed', async () => {
  await assert.rejects(run('', { file: 'no-such-program' }), { code: 'ENOENT' });
  assert.equal((await run('sleep 60', { timeoutMs: 50 })).end.signal, 9);
});

test('a program whose signal aborts is killed, also if it has aborted before', async () => {
  const stopping = new AbortController();
  const running = run('sleep 60', { signal: stopping.signal });
  stopping.abort();
  assert.equal((await running).end.signal, 9);
  assert.equal((await run('sleep 60', { signal: stopping.signal })).end.signal, 9);
});

test('the processor time of a program is that of itself and of what it waited for', async () => {
  const { end } = await run('i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; times');
  const { output, end: both } = await run(
    'sh -c "i=0; while [ \\$i -lt 100000 ]; do i=\\$((i + 1)); done"; cat /proc/$$/stat',
  );
  assert.ok(end.processorMs >= 10, `${end.processorMs} ms`);
  // Fields 14 to 17 count what the shell and its children used, in ticks of 10 ms.
  const ticks = output.split(') ')[1]?.split(' ').slice(11, 15).map(Number) ?? [];
  const seenMs = 10 * ticks.reduce((sum, each) => sum + each, 0);
  assert.ok(Math.abs(both.processorMs - seenMs) <= 50, `${both.processorMs} ms, of which ${seenMs} were seen`);
  assert.ok((await run('sleep 0.2')).end.processorMs < 100);
});

test('many programs at once are reaped separately, and so are children of Node', async () => {
  const other = spawn('sh', ['-c', 'exit 3']);
  const ends = await Promise.all([1, 2, 3, 4, 5, 6].map((code) => run(`exit ${code}`)));
  assert.deepEqual(
    ends.map(({ end }) => end.code),
    [1, 2, 3, 4, 5, 6],
  );
  if (other.exitCode === null) await once(other, 'exit');
  assert.equal(other.exitCode, 3);
});
