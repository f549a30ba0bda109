import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Random } from '@cloche/testkit/random';
import { findEntries } from './find-entries.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cloche-ignore-'));
});
afterEach(() => rmSync(root, { recursive: true }));

/** Writes files, with the folders above them. */
function write(files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}

function git(...args: string[]): string {
  const env = { PATH: process.env.PATH, HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' };
  return execFileSync('git', ['-C', root, ...args], { encoding: 'latin1', env });
}

/** Returns the packed files below the root, sorted. */
async function packed(folder = root): Promise<string[]> {
  const { entries } = await findEntries(Buffer.from(folder), 100_000, undefined);
  return entries
    .filter(({ kind }) => kind !== 'directory')
    .map(({ name }) => name)
    .sort();
}

function filesByGit(): string[] {
  return git('ls-files', '-coz', '--exclude-standard').split('\0').filter(Boolean).sort();
}

// biome-ignore format: a table
const NAMES = ['a', 'b', 'ab', 'B', 'foo', 'bar', 'build', 'x.log', 'a.b', 'a b', 'sp ', 't\t', 'é', '[z]', 'w*', 'q?', '#h', '!i', '\\k'] as const;
// biome-ignore format: a table
const PARTS = ['a', 'b', 'foo', 'bar', 'build', '*', '?', '**', '*.log', 'f*', '*o', 'a*b', 'b?r', 'a**', '**b', '[ab]', '[!a]', '[^b]', '[a-c]',
  '[[:alpha:]]', 'x.l[o]g', 'q[?]', '[z', 'é', '\\[z]', 'w\\*', 'q\\?', '\\#h', '\\!i', '\\\\k', 'a b', 'sp\\ ', 'tail ', 't\t'] as const;

function randomPattern(random: Random): string {
  const parts = Array.from({ length: 1 + random.below(3) }, () => random.pick(PARTS)).join('/');
  const sign = random.chance(0.3) ? '!' : '';
  const end = `${random.chance(0.3) ? '/' : ''}${random.chance(0.1) ? '  ' : ''}${random.chance(0.1) ? '\r' : ''}`;
  return `${sign}${random.chance(0.3) ? '/' : ''}${parts}${end}`;
}

/** Writes a tree of files with an ignore file in some of its folders. */
function writeRandomTree(top: string, random: Random): void {
  const folders: [string, ...string[]] = [top];
  for (let count = 0; count < 10; count += 1) {
    const folder = `${random.pick(folders)}/${random.pick(NAMES)}`;
    if (folder.split('/').length <= 5 && !folders.includes(folder)) folders.push(folder);
  }
  for (let count = 0; count < 40; count += 1) {
    const path = `${random.pick(folders)}/${random.pick(NAMES)}`;
    if (!folders.includes(path)) write({ [path]: '' });
  }
  for (const folder of folders) {
    if (folder !== top && random.chance(0.6)) continue;
    const patterns = Array.from({ length: 1 + random.below(4) }, () => randomPattern(random));
    write({ [`${folder}/.gitignore`]: `${patterns.join('\n')}\n` });
  }
}

describe('what .gitignore leaves out', () => {
  it('what .gitignore leaves out is what git leaves out, in random trees', async () => {
    for (let seed = 1; seed <= 60; seed += 1) writeRandomTree(`tree ${seed}`, new Random(seed));
    git('init', '-q');
    const byGit = filesByGit();
    const all = git('ls-files', '-oz').split('\0').length - 1;
    assert.ok(byGit.length > all / 4 && byGit.length < (all * 9) / 10, `${byGit.length} of ${all} are left`);
    assert.deepEqual(await packed(), byGit);
  });

  it('what .gitignore leaves out is also left out below the folder of the repository that is packed', async () => {
    write({ '.gitignore': 'node_modules\n/app/out\n', 'app/.gitignore': '*.tmp', 'app/main/x.tmp': '' });
    write({ 'app/main/x.js': '', 'app/main/node_modules/y.js': '', 'app/out/z': '', 'app/main/out/z': '' });
    git('init', '-q');
    assert.deepEqual(await packed(join(root, 'app')), ['.gitignore', 'main/out/z', 'main/x.js']);
    assert.deepEqual(await packed(join(root, 'app/main')), ['out/z', 'x.js']);
  });

  it('what .gitignore leaves out is packed if it is the directory itself', async () => {
    write({ '.gitignore': 'dist\n*.map', 'dist/a.js': '', 'dist/a.map': '' });
    git('init', '-q');
    assert.deepEqual(await packed(join(root, 'dist')), ['a.js', 'a.map']);
  });

  it('what .gitignore leaves out needs no repository, in which case folders above do not count', async () => {
    write({ '.gitignore': '*.js', 'app/.gitignore': '*.map', 'app/a.js': '', 'app/a.map': '' });
    assert.deepEqual(await packed(join(root, 'app')), ['.gitignore', 'a.js']);
  });
});

describe('.clocheignore', () => {
  it('.clocheignore leaves out more, and includes again what .gitignore leaves out', async () => {
    write({ '.gitignore': 'dist/\n*.log', '.clocheignore': '!dist/\ndocs\n!/keep.log' });
    write({ 'dist/a.js': '', 'dist/b.log': '', 'docs/x': '', 'keep.log': '', 'sub/keep.log': '' });
    assert.deepEqual(await packed(), ['.clocheignore', '.gitignore', 'dist/a.js', 'keep.log']);
  });

  it('.clocheignore of a folder above counts more than a .gitignore below', async () => {
    write({ '.clocheignore': '*.data', 'sub/.gitignore': '!big.data', 'sub/big.data': '', 'sub/x': '' });
    assert.deepEqual(await packed(), ['.clocheignore', 'sub/.gitignore', 'sub/x']);
  });
});

describe('the folder .git', () => {
  it('the folder .git is left out at every depth, also as a file', async () => {
    write({ '.git/HEAD': 'ref', 'module/.git': 'gitdir: ../x', 'module/a': '' });
    assert.deepEqual(await packed(), ['module/a']);
  });
});
