import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, describe, it } from 'node:test';
import { BuildContext } from './build-context.ts';
import { DockerfileError } from './dockerfile-error.ts';
import { packEntries } from './pack-entries.ts';
import type { CopyStep } from './plan.ts';
import { readDockerfile } from './read-dockerfile.ts';

const created: string[] = [];
after(() => {
  for (const folder of created) rmSync(folder, { recursive: true });
});

/** Makes a folder with files by their paths; a path that ends with a slash is an empty directory. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-context-test-'));
  created.push(folder);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(path.endsWith('/') ? join(folder, path) : dirname(join(folder, path)), { recursive: true });
    if (!path.endsWith('/')) writeFileSync(join(folder, path), content);
  }
  return folder;
}

function entriesOf(folder: string, instruction: string) {
  const step = readDockerfile(`FROM base\n${instruction}`).steps[0] as CopyStep;
  return new BuildContext(folder, join(folder, 'Dockerfile')).entries(step);
}

const pathsOf = (folder: string, instruction: string) =>
  [...entriesOf(folder, instruction)].map(({ path, type }) => (type === 'directory' ? `${path}/` : path));

describe('BuildContext', () => {
  const folder = folderOf({
    'a.txt': 'a',
    'b.txt': 'b',
    'src/x.js': 'x',
    'src/in/y.js': 'y',
    '.hidden': 'h',
    'empty/': '',
  });

  it('BuildContext copies the content of a directory, and a file under the name of the target', () => {
    assert.deepEqual(pathsOf(folder, 'COPY src /app'), ['/app/', '/app/in/', '/app/in/y.js', '/app/x.js']);
    assert.deepEqual(pathsOf(folder, 'COPY a.txt /b'), ['/b']);
    assert.deepEqual(pathsOf(folder, 'COPY a.txt src /to/'), [
      '/to/a.txt',
      '/to/',
      '/to/in/',
      '/to/in/y.js',
      '/to/x.js',
    ]);
    const all = ['/.hidden', '/a.txt', '/b.txt', '/empty/', '/src/', '/src/in/', '/src/in/y.js', '/src/x.js'];
    assert.deepEqual(pathsOf(folder, 'COPY . /'), all);
    assert.deepEqual(pathsOf(folder, 'COPY / /'), all);
  });

  it('BuildContext takes each name that a pattern matches, in every part of a path', () => {
    assert.deepEqual(pathsOf(folder, 'COPY *.txt /to/'), ['/to/a.txt', '/to/b.txt']);
    assert.deepEqual(pathsOf(folder, 'COPY s?c/*.js /to/'), ['/to/x.js']);
    assert.deepEqual(pathsOf(folder, 'COPY [b-z].txt /to'), ['/to']);
    assert.throws(() => pathsOf(folder, 'COPY *.txt /to'), /line 2: .*end the target with a slash/);
    assert.throws(() => pathsOf(folder, 'COPY *.py /to/'), /line 2: \*\.py matches no file/);
    assert.throws(() => pathsOf(folder, 'COPY none /to/'), /line 2: none does not exist in /);
  });

  it('BuildContext leaves out what .dockerignore excludes, and keeps its exceptions', () => {
    const files = { 'keep/a': '', 'keep/b': '', 'drop/x/kept': '', 'drop/x/y': '', 'none/z': '', '.dockerignore': '' };
    const ignoring = folderOf({ ...files, '.dockerignore': 'keep/b\ndrop\nnone\n!drop/*/kept\n.dockerignore' });
    assert.deepEqual(pathsOf(ignoring, 'COPY . /'), ['/drop/', '/drop/x/', '/drop/x/kept', '/keep/', '/keep/a']);
    assert.throws(() => pathsOf(ignoring, 'COPY keep/b /'), /keep\/b is excluded by \.dockerignore/);
    const own = folderOf({ a: '', b: '', '.dockerignore': 'a', 'Dockerfile.dockerignore': 'b\n*ocker*' });
    assert.deepEqual(pathsOf(own, 'COPY . /'), ['/a'], 'the file named after the Dockerfile comes first');
  });

  it('BuildContext keeps links, and refuses sources that lead out of the folder, pipes and archives of ADD', () => {
    const linked = folderOf({ 'd/a': 'a', 'x.tar.gz': '\u001f\u008b' });
    symlinkSync('a', join(linked, 'd/link'));
    symlinkSync('/etc/hostname', join(linked, 'outside'));
    symlinkSync('d', join(linked, 'inside'));
    const [, , link] = entriesOf(linked, 'COPY inside /to');
    assert.deepEqual(link, { path: '/to/link', type: 'symlink', mode: 0o777, sizeBytes: 0, target: 'a' });
    assert.throws(() => pathsOf(linked, 'COPY outside /to'), DockerfileError);
    execFileSync('mkfifo', [join(linked, 'd/pipe')]);
    assert.throws(() => pathsOf(linked, 'COPY d /to'), /d\/pipe is neither a file nor a directory/);
    writeFileSync(join(linked, 'x.tar.gz'), Buffer.from([0x1f, 0x8b, 8, 0]));
    assert.throws(() => pathsOf(linked, 'ADD x.tar.gz /to/'), /line 2: ADD of the archive x\.tar\.gz/);
    assert.deepEqual(pathsOf(linked, 'COPY x.tar.gz /to/'), ['/to/x.tar.gz']);
  });
});

describe('packEntries', () => {
  const files = { 'bin/run': '#!/bin/sh\n', [`${'long/'.repeat(40)}ünïcode`]: 'x'.repeat(100_000), empty: '' };

  it('packs what tar unpacks, with modes and inline files', async () => {
    const folder = folderOf(files);
    chmodSync(join(folder, 'bin/run'), 0o755);
    symlinkSync('bin/run', join(folder, 'link'));
    const target = folderOf({});
    const unpack = (bytes: Buffer) => execFileSync('tar', ['-xzf', '-', '-C', target], { input: bytes });
    unpack(await buffer(packEntries(entriesOf(folder, 'COPY . /app'))));
    execFileSync('diff', ['-r', '--no-dereference', folder, join(target, 'app')]);
    const modeOf = (path: string) =>
      execFileSync('stat', ['-c', '%a', join(target, path)], { encoding: 'utf8' }).trim();
    assert.equal(modeOf('app/bin/run'), '755');
    unpack(await buffer(packEntries(entriesOf(folder, 'COPY --chmod=640 <<A <<B /etc/\none\nA\nB'))));
    assert.equal(execFileSync('cat', [join(target, 'etc/A'), join(target, 'etc/B')], { encoding: 'utf8' }), 'one\n');
    assert.equal(modeOf('etc/A'), '640');
  });

  it('packEntries gives equal bytes for equal files, whenever they were written', async () => {
    const [one, other] = [folderOf(files), folderOf(files)];
    utimesSync(join(other, 'bin/run'), 1, 1);
    const pack = (folder: string) => buffer(packEntries(entriesOf(folder, 'COPY . /app')));
    assert.ok((await pack(one)).equals(await pack(other)));
    writeFileSync(join(other, 'empty'), 'x');
    assert.ok(!(await pack(one)).equals(await pack(other)));
  });

  it('packEntries fails if a file shrinks while it is read', async () => {
    const folder = folderOf({ a: 'x'.repeat(1000) });
    const entries = [...entriesOf(folder, 'COPY . /app')];
    truncateSync(join(folder, 'a'), 10);
    await assert.rejects(buffer(packEntries(entries)), /a became shorter/);
  });
});
