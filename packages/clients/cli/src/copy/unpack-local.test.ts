import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type TarHeader, tarPadding, writeTarHeader } from '@cloche/archive';
import { InterruptedError } from '../interruption.ts';
import { unpackLocal } from './unpack-local.ts';

type Entry = readonly [header: Partial<TarHeader> & { name: string }, content?: string];

let scratch: string;
let target: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'cloche-unpack-'));
  target = join(scratch, 'target');
  mkdirSync(join(scratch, 'elsewhere'));
});
afterEach(() => rmSync(scratch, { recursive: true }));

const never = new AbortController().signal;
const file = (name: string, content = 'content'): Entry => [{ name }, content];
const link = (name: string, linkName: string, flag = '2'): Entry => [{ name, linkName, flag }];
const folder = (name: string): Entry => [{ name: `${name}/`, flag: '5', mode: 0o755 }];

function tarOf(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap(([header, content = '']) => {
    const size = content.length;
    const full = { flag: '0', mode: 0o644, mtime: 1_000_000_000, linkName: '', size, ...header };
    return [writeTarHeader(full), Buffer.from(content), Buffer.alloc(tarPadding(size))];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** Yields pieces as `fetch` does, which are no `Buffer`. */
async function* inPieces(archive: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < archive.length; at += 700) yield Uint8Array.from(archive.subarray(at, at + 700));
}

const unpack = (...entries: Entry[]) => unpackLocal(target, inPieces(tarOf(entries)), { signal: never });
const tree = (path: string) => readdirSync(path, { recursive: true, encoding: 'utf8' }).sort();

describe('an archive of a sandbox', () => {
  it('an archive of a sandbox becomes files, directories and links, with times and without set-id bits', async () => {
    await unpack(folder('sub'), [{ name: 'sub/tool', mode: 0o6755 }, '#!'], link('l', '/etc/hosts'));
    assert.deepEqual(tree(target), ['l', 'sub', 'sub/tool']);
    assert.equal(readlinkSync(join(target, 'l')), '/etc/hosts');
    const { mode, mtimeMs } = statSync(join(target, 'sub/tool'));
    assert.equal(mode & 0o7777, 0o755 & ~process.umask());
    assert.equal(mtimeMs, 1e12);
    assert.equal(statSync(join(target, 'sub')).mtimeMs, 1e12);
  });

  it('an archive of a sandbox of directories that their owner may not write can be copied again', async () => {
    for (const content of ['first', 'second']) {
      await unpack([{ name: 'closed/', flag: '5', mode: 0o555 }], file('closed/file', content));
      assert.equal(readFileSync(join(target, 'closed/file'), 'utf8'), content);
    }
    assert.equal(statSync(join(target, 'closed')).mode & 0o700, 0o700);
  });

  it('an archive of a sandbox keeps hard links among its files, and names of any bytes', async () => {
    const name = `\xff\n${'n'.repeat(253)}`;
    await unpack(folder('d'), file(`d/${name}`), link('again', `d/${name}`, '1'));
    const [found] = readdirSync(join(target, 'd'), { encoding: 'latin1' as 'utf8' });
    assert.equal(found, name);
    assert.equal(lstatSync(join(target, 'again')).nlink, 2);
  });

  it('an archive of a sandbox is merged into a directory: files are replaced, others stay', async () => {
    await unpack(folder('sub'), file('sub/old', 'old'), file('sub/kept', 'kept'));
    await unpack(folder('sub'), file('sub/old', 'new'), folder('sub/more'), file('sub/more/x', 'x'));
    assert.deepEqual(tree(target), ['sub', 'sub/kept', 'sub/more', 'sub/more/x', 'sub/old']);
    assert.equal(readFileSync(join(target, 'sub/old'), 'utf8'), 'new');
  });
});

describe('a link that is in the target already', () => {
  beforeEach(() => {
    mkdirSync(target);
    symlinkSync('../elsewhere', join(target, 'link'));
  });

  it('a link that is in the target already is replaced by a directory of that name, and not followed', async () => {
    await unpack(file('link/file'));
    assert.deepEqual(readdirSync(join(scratch, 'elsewhere')), []);
    assert.ok(lstatSync(join(target, 'link')).isDirectory());
    assert.deepEqual(tree(target), ['link', 'link/file']);
  });

  it('a link that is in the target already is replaced by a file of that name, and not followed', async () => {
    writeFileSync(join(scratch, 'elsewhere/file'), 'of the user');
    symlinkSync('../elsewhere/file', join(target, 'file'));
    await unpack(file('file'));
    assert.equal(readFileSync(join(scratch, 'elsewhere/file'), 'utf8'), 'of the user');
    assert.ok(lstatSync(join(target, 'file')).isFile());
  });

  it('a link that is in the target already is not followed where it has the name of what is copied', async () => {
    const archive = inPieces(tarOf([file('file')]));
    await unpackLocal(target, archive, { as: Buffer.from('link'), signal: never });
    assert.deepEqual(readdirSync(join(scratch, 'elsewhere')), []);
    assert.deepEqual(tree(target), ['link', 'link/file']);
  });

  it('a link that is in the target already would be followed by tar alone', () => {
    execFileSync('tar', ['-C', target, '-xf', '-'], { input: tarOf([file('link/file')]) });
    assert.deepEqual(readdirSync(join(scratch, 'elsewhere')), ['file']);
  });
});

describe('nothing is changed where an archive', () => {
  const refused: Record<string, readonly [entries: Entry[], why: RegExp]> = {
    'climbs out': [[file('../escaped')], /leads out of the directory/],
    'climbs out in the middle': [[file('a/../../escaped')], /leads out of the directory/],
    'has an absolute name': [[file('/tmp/escaped')], /absolute/],
    'writes through a link of its own': [
      [link('l', '../elsewhere'), file('l/file')],
      /both as a directory and as a file/,
    ],
    'replaces a directory by a link': [
      [file('d/x'), link('d', '../elsewhere'), file('d/y')],
      /both as a directory and as a file/,
    ],
    'has a hard link to a file outside': [[link('h', '../elsewhere/x', '1')], /leads out of the directory/],
    'has a hard link to an absolute name': [[link('h', '/etc/passwd', '1')], /absolute/],
    'has a hard link through a link': [
      [link('l', '../elsewhere'), link('h', 'l/x', '1')],
      /does not precede it in the archive/,
    ],
    'has a hard link to a link': [
      [link('l', '/etc/passwd'), link('h', 'l', '1')],
      /does not precede it in the archive/,
    ],
    'has a block device': [[[{ name: 'disk', flag: '4' }]], /a device/],
    'has a character device': [[[{ name: 'null', flag: '3' }]], /a device/],
    'has a pipe': [[[{ name: 'pipe', flag: '6' }]], /a pipe/],
    'breaks off': [[[{ name: 'cut', size: 100_000 }, 'short']], /ends before its last entry/],
  };
  for (const [title, [entries, why]] of Object.entries(refused)) {
    it(title, async () => {
      writeFileSync(join(scratch, 'elsewhere/x'), 'of the user');
      mkdirSync(target);
      writeFileSync(join(target, 'kept'), 'kept');
      await assert.rejects(unpack(file('fine'), ...entries), { name: 'CliError', message: why });
      assert.deepEqual(tree(scratch), ['elsewhere', 'elsewhere/x', 'target', 'target/kept']);
    });
  }

  it('nothing is changed where an archive has a file where there is a directory, or a directory where there is a file', async () => {
    mkdirSync(join(target, 'folder'), { recursive: true });
    writeFileSync(join(target, 'file'), 'of the user');
    await assert.rejects(unpack(file('a'), file('folder')), { name: 'CliError', message: /is a directory here/ });
    await assert.rejects(unpack(file('a'), file('file/x')), { name: 'CliError', message: /is a file here/ });
    assert.deepEqual(tree(target), ['file', 'folder']);
  });

  it('nothing is changed where an archive is no archive', async () => {
    const nonsense = inPieces(Buffer.alloc(2000, 'nonsense'));
    await assert.rejects(unpackLocal(target, nonsense, { signal: never }), {
      name: 'CliError',
      message: /not a valid tar/,
    });
    assert.ok(!existsSync(target));
  });

  it('nothing is changed where an archive stops arriving', async () => {
    const source = (async function* () {
      yield tarOf([file('a')]).subarray(0, 1024);
      throw new Error('the connection broke');
    })();
    const nested = join(target, 'deep/er');
    await assert.rejects(unpackLocal(nested, source, { signal: never }), /the connection broke/);
    assert.ok(!existsSync(target));
  });

  it('nothing is changed where an archive is interrupted', async () => {
    const stop = new AbortController();
    const source = (async function* () {
      yield tarOf([file('a')]).subarray(0, 1024);
      stop.abort(new InterruptedError('SIGINT'));
      yield tarOf([file('b')]);
    })();
    await assert.rejects(unpackLocal(target, source, { signal: stop.signal }), { name: 'Interrupted' });
    assert.ok(!existsSync(target));
  });
});
