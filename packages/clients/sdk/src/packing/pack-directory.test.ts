import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { needsRoot } from '@cloche/testkit/needs-root';
import type { ArchiveProgress, ArchiveSource, PackingNote, PackOptions } from './archive-source.ts';
import { packDirectory } from './pack-directory.ts';

let scratch: string;
let root: string;
let notes: PackingNote[];
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'cloche-pack-'));
  root = join(scratch, 'project');
  mkdirSync(root);
  notes = [];
});
afterEach(() => rmSync(scratch, { recursive: true }));

const pack = (changes: Partial<PackOptions> = {}) =>
  packDirectory(root, {
    compress: false,
    streamedBytes: 1e8,
    maxBytes: 1e9,
    maxEntries: 1000,
    onNote: (note) => notes.push(note),
    onProgress: () => undefined,
    signal: undefined,
    ...changes,
  });

async function bytesOf(source: ArchiveSource, onProgress: (progress: ArchiveProgress) => void = () => undefined) {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source.open(onProgress)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function unpacked(tar: Buffer): string {
  const target = join(scratch, 'unpacked');
  mkdirSync(target);
  execFileSync('tar', ['-C', target, '-xpf', '-'], { input: tar });
  return target;
}

const list = (tar: Buffer) =>
  execFileSync('tar', ['-tf', '-'], { input: tar, encoding: 'utf8' }).split('\n').slice(0, -1);

describe('a packed directory', () => {
  it('a packed directory is unpacked by tar into the same files, directories, links, modes and times', async () => {
    const long = 'n'.repeat(120);
    mkdirSync(join(root, 'empty'));
    mkdirSync(join(root, long));
    writeFileSync(join(root, long, 'large'), Buffer.alloc(700_001, 'x'));
    writeFileSync(join(root, 'tool'), '#!/bin/sh\n');
    chmodSync(join(root, 'tool'), 0o4755);
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0x0a, 0x61])]), 'not UTF-8');
    symlinkSync(`../${long}/large`, join(root, 'empty', 'link'));
    utimesSync(join(root, 'tool'), 1e9, 1e9);
    const target = unpacked(await bytesOf(await pack()));
    execFileSync('diff', ['-r', '--no-dereference', root, target]);
    const shape = (folder: string) =>
      execFileSync('find', ['.', '-mindepth', '1', '-printf', '%P %y %s %Ts %l\n'], {
        cwd: folder,
        encoding: 'latin1',
      });
    const sorted = (folder: string) =>
      shape(folder)
        .split('\n')
        .filter((line) => !/ d /.test(line))
        .sort();
    assert.deepEqual(sorted(target), sorted(root));
    const mode = (folder: string) => execFileSync('stat', ['-c', '%a', join(folder, 'tool')], { encoding: 'utf8' });
    assert.deepEqual([mode(root), mode(target)], ['4755\n', '755\n']);
  });

  it('a packed directory becomes the same bytes each time, in the order of the names', async () => {
    for (const name of ['b', 'a', 'c/d', 'c.x']) {
      mkdirSync(join(root, name, '..'), { recursive: true });
      writeFileSync(join(root, name), name);
    }
    const source = await pack();
    const [first, again, anew] = [await bytesOf(source), await bytesOf(source), await bytesOf(await pack())];
    assert.deepEqual(list(first), ['a', 'b', 'c/', 'c/d', 'c.x']);
    assert.ok(first.equals(again) && first.equals(anew));
  });

  it('a packed directory is compressed on request, and reports what was read of it', async () => {
    writeFileSync(join(root, 'file'), Buffer.alloc(600_000, 'text '));
    const plain = await bytesOf(await pack());
    const source = await pack({ compress: true });
    const progress: ArchiveProgress[] = [];
    const compressed = await bytesOf(source, (step) => progress.push(step));
    assert.ok(compressed.length < plain.length / 10);
    const expand = source.format === 'tar.zst' ? createZstdDecompress() : createGunzip();
    expand.end(compressed);
    assert.ok(plain.equals(Buffer.concat(await expand.toArray())));
    assert.deepEqual(progress.at(-1), { phase: 'uploading', bytes: plain.length, totalBytes: plain.length });
    assert.ok(progress.length > 1);
  });

  it('a packed directory has no sockets and pipes, which are noted', async () => {
    writeFileSync(join(root, 'file'), '');
    execFileSync('mkfifo', [join(root, 'pipe')]);
    const server = createServer().listen(join(root, 'socket'));
    await new Promise((resolve) => server.once('listening', resolve));
    try {
      assert.deepEqual(list(await bytesOf(await pack())), ['file']);
    } finally {
      server.close();
    }
    assert.deepEqual(notes, [
      { path: 'pipe', reason: 'pipe' },
      { path: 'socket', reason: 'socket' },
    ]);
  });
});

describe('a directory is refused', () => {
  const refused = (words: RegExp, changes: Partial<PackOptions> = {}) =>
    assert.rejects(pack(changes), { name: 'ClocheError', code: 'packing_failed', message: words });

  it('a directory is refused if links lead out of it; the error names each', async () => {
    mkdirSync(join(root, 'sub'));
    symlinkSync('/etc/passwd', join(root, 'absolute'));
    symlinkSync('../../outside', join(root, 'sub/climbing'));
    symlinkSync('../inside', join(root, 'sub/fine'));
    await refused(/"absolute" is a link that .*; "sub\/climbing" is a link that .*\.clocheignore\.$/);
    writeFileSync(join(root, '.clocheignore'), 'absolute\nclimbing');
    await pack();
  });

  it('a directory is refused if files or directories cannot be read; the error names each', {
    skip: needsRoot,
  }, async () => {
    mkdirSync(join(root, 'closed'), { mode: 0o700 });
    writeFileSync(join(root, 'secret'), '', { mode: 0o600 });
    chmodSync(scratch, 0o755);
    process.seteuid?.(1000);
    try {
      await refused(/"closed" cannot be read \(EACCES\); "secret" cannot be read \(EACCES\);/);
    } finally {
      process.seteuid?.(0);
    }
  });

  it('a directory is refused if it has too many entries', async () => {
    for (let index = 0; index < 5; index += 1) writeFileSync(join(root, String(index)), '');
    await refused(/more than 4 entries/, { maxEntries: 4 });
    await pack({ maxEntries: 5 });
  });

  it('if it is missing, or a file', async () => {
    rmSync(root, { recursive: true });
    await refused(/does not exist/);
    writeFileSync(root, '');
    await refused(/is not a directory/);
  });

  it('a directory is refused when the caller aborts', async () => {
    writeFileSync(join(root, 'file'), '');
    await assert.rejects(pack({ signal: AbortSignal.abort(new Error('enough')) }), /enough/);
  });
});

describe('a file that changes while it is packed', () => {
  const large = () => join(root, 'large');
  beforeEach(() => writeFileSync(large(), Buffer.alloc(2_000_000, 'a')));

  /** Packs, and calls `change` after the first chunk. */
  async function packedWhile(change: () => void): Promise<Buffer> {
    let isFirst = true;
    return bytesOf(await pack(), () => {
      if (isFirst) change();
      isFirst = false;
    });
  }

  it('a file that changes while it is packed is packed as large as it was if it grows, with a note', async () => {
    const tar = await packedWhile(() => appendFileSync(large(), 'b'.repeat(100_000)));
    const content = execFileSync('tar', ['-xOf', '-'], { input: tar, maxBuffer: 4_000_000 });
    assert.ok(content.equals(Buffer.alloc(2_000_000, 'a')));
    assert.deepEqual(notes, [{ path: 'large', reason: 'changed' }]);
  });

  it('a file that changes while it is packed fails the packing if it becomes shorter', async () => {
    const words = { code: 'packing_failed', message: /"large" became shorter/ };
    await assert.rejects(
      packedWhile(() => truncateSync(large(), 1000)),
      words,
    );
  });

  it('a file that changes while it is packed is left out if it is gone before it is read', async () => {
    writeFileSync(join(root, 'other'), '');
    const source = await pack();
    unlinkSync(large());
    assert.deepEqual(list(await bytesOf(source)), ['other']);
    assert.deepEqual(notes, [{ path: 'large', reason: 'removed' }]);
  });
});

describe('a large directory', () => {
  const streamedBytes = 10_000;
  let temporary: string;
  beforeEach(() => {
    temporary = join(scratch, 'temporary');
    mkdirSync(temporary);
    process.env.TMPDIR = temporary;
    for (const name of ['one', 'two']) writeFileSync(join(root, name), Buffer.alloc(300_000, name));
  });
  afterEach(() => {
    delete process.env.TMPDIR;
  });

  it('a large directory is packed once, with its size and SHA-256, and read any number of times', async () => {
    const progress: ArchiveProgress[] = [];
    const source = await pack({ streamedBytes, onProgress: (step) => progress.push(step) });
    const [first, again] = [await bytesOf(source), await bytesOf(source)];
    assert.deepEqual(source.packed, {
      sizeBytes: first.length,
      sha256: createHash('sha256').update(first).digest('hex'),
    });
    assert.ok(first.equals(again));
    assert.notEqual(source.format, 'tar');
    assert.equal(progress.at(-1)?.phase, 'packing');
    assert.deepEqual(readdirSync(temporary), []);
    await source[Symbol.asyncDispose]();
    await assert.rejects(bytesOf(source));
  });

  it('a large directory is refused if its archive is too large, and leaves nothing', async () => {
    await assert.rejects(pack({ streamedBytes, maxBytes: 10 }), {
      code: 'packing_failed',
      message: /larger than 10 bytes/,
    });
    assert.deepEqual(readdirSync(temporary), []);
  });
});
