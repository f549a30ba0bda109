import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../packages/shared/testkit/src/eventually.ts';
import { longestFirst, suites } from './e2e-suites.ts';

const IMPORT = "import { test } from 'node:test';\n";

describe('test files of a stage', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-run-files-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  function run(names: readonly string[], options: readonly string[] = []): { status: number | null; ran: string[] } {
    const log = join(folder, 'log');
    writeFileSync(log, '');
    const { NODE_TEST_CONTEXT: _, ...env }: NodeJS.ProcessEnv = { ...process.env, LOG: log };
    const files = names.map((name) => join(folder, `${name}.test.mjs`));
    const { status } = spawnSync(process.execPath, ['scripts/run-files.ts', ...options, ...files], { env });
    return { status, ran: readFileSync(log, 'utf8').split('\n').filter(Boolean) };
  }

  function write(name: string, code: string): void {
    const note = `import { appendFileSync } from 'node:fs';\nappendFileSync(process.env.LOG, '${name}\\n');\n`;
    writeFileSync(join(folder, `${name}.test.mjs`), `${IMPORT}${note}${code}`);
  }

  it('run in the order in which they are given', () => {
    for (const name of ['a', 'b', 'c']) write(name, "test('passes', () => undefined);");
    assert.deepEqual(run(['c', 'a', 'b']), { status: 0, ran: ['c', 'a', 'b'] });
  });

  it('end with the program that runs them, after the last step of a global setup', async () => {
    const log = join(folder, 'log');
    writeFileSync(log, '');
    const note = (text: string) => `(await import('node:fs')).appendFileSync(process.env.LOG, ${text})`;
    writeFileSync(join(folder, 'last.mjs'), `export async function globalTeardown() { ${note("'down\\n'")}; }`);
    write(
      'hangs',
      `${note("process.pid + '\\n'")};\ntest('hangs', () => new Promise(() => setInterval(() => 0, 1000)));`,
    );
    const { NODE_TEST_CONTEXT: _, ...env }: NodeJS.ProcessEnv = { ...process.env, LOG: log };
    const setup = `--global-setup=${join(folder, 'last.mjs')}`;
    const args = ['scripts/run-files.ts', setup, join(folder, 'hangs.test.mjs')];
    const runner = spawn(process.execPath, args, { env, stdio: 'ignore' });
    const ended = once(runner, 'exit');
    const pid = () => Number(/^\d+$/m.exec(readFileSync(log, 'utf8'))?.[0]);
    await eventually(() => pid() > 0, { because: 'the test has begun' });
    runner.kill('SIGTERM');
    assert.deepEqual(await ended, [1, null]);
    assert.match(readFileSync(log, 'utf8'), /down/);
    await eventually(() => !existsSync(`/proc/${pid()}`), { because: 'the process of the file has ended' });
  });

  it('run between the steps of a global setup, whose variables they have', () => {
    const log = (word: string) => `(await import('node:fs')).appendFileSync(process.env.LOG, '${word}\\n')`;
    const setup = `export async function globalSetup() { process.env.SHARED = 'yes'; ${log('up')}; }
export async function globalTeardown() { ${log('down')}; }`;
    writeFileSync(join(folder, 'setup.mjs'), setup);
    write('shared', "test('has it', () => { if (process.env.SHARED !== 'yes') throw new Error('no variable'); });");
    const { status, ran } = run(['shared'], [`--global-setup=${join(folder, 'setup.mjs')}`]);
    assert.deepEqual({ status, ran }, { status: 0, ran: ['up', 'shared', 'down'] });
  });

  it('end with an exit code if one of them fails, unless what fails is to do', () => {
    write('fails', "test('fails', () => { throw new Error('here'); });");
    write('later', "test('fails', { todo: true }, () => { throw new Error('here'); });");
    assert.deepEqual(run(['fails', 'later']), { status: 1, ran: ['fails', 'later'] });
    assert.equal(run(['later']).status, 0);
  });
});

describe('the longest test files', () => {
  it('the longest test files start first, and each file runs once', () => {
    const files = suites();
    const ordered = longestFirst(files);
    assert.deepEqual(ordered.toSorted(), files.toSorted());
    assert.equal(ordered[0], 'e2e/functional/template-builds.test.ts');
    assert.deepEqual(longestFirst(['b.test.ts', 'a.test.ts']), ['a.test.ts', 'b.test.ts']);
  });
});
