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
  assert.deepEqual({ end, output }, { end: { code: 7 }, output: 'a b ü value' });
  assert.deepEqual((await run('kill -TERM $$')).end, { signal: 15 });
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
  assert.deepEqual((await run('sleep 60', { timeoutMs: 50 })).end, { signal: 9 });
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
