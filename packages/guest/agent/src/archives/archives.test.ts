import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type TarHeader, writeTarHeader } from '@cloche/archive';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

let agent: FileAgent;
let scratch: string;
before(async () => {
  if (needsRoot) return;
  agent = await FileAgent.start();
});
after(() => agent?.[Symbol.asyncDispose]());
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'cloche-archives-'));
});
afterEach(() => {
  rmSync(scratch, { recursive: true, force: true });
  for (const name of readdirSync(agent.workspace))
    rmSync(join(agent.workspace, name), { recursive: true, force: true });
});

const inside = (name: string) => join(agent.workspace, name);
const download = (path: string, format: string) => agent.call('GET', '/archive', { path, format });
const upload = (body: Buffer, path = '.') => agent.call('PUT', '/archive', { path }, { body });
const shell = (line: string, cwd = scratch) => execFileSync('sh', ['-c', line], { cwd });
const tree = (folder: string) => shell('find . ! -name . | LC_ALL=C sort', folder).toString().trim().split('\n');

/** Returns a tar of these entries, as an attacker could write it. */
function tarOf(...entries: [header: Partial<TarHeader> & { name: string }, content?: string][]): Buffer {
  const blocks = entries.flatMap(([header, content = '']) => {
    const size = Buffer.byteLength(content);
    const full = { flag: '0', mode: 0o644, mtime: 0, linkName: '', size, ...header };
    return [writeTarHeader(full), Buffer.from(content), Buffer.alloc((512 - (size % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function makeTree(folder: string): void {
  mkdirSync(join(folder, 'sub/deep'), { recursive: true });
  writeFileSync(join(folder, 'a.txt'), 'a');
  writeFileSync(join(folder, 'sub/program'), '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(join(folder, `sub/deep/${'n'.repeat(200)}`), 'long name');
  writeFileSync(join(folder, 'sub/größe 名前'), 'unicode');
  writeFileSync(join(folder, 'empty'), '');
  writeFileSync(join(folder, 'large'), Buffer.alloc(1_500_000, 'large'));
  symlinkSync('sub/program', join(folder, 'link'));
  utimesSync(join(folder, 'a.txt'), 1_000_000_000, 1_000_000_000);
}

describe('an archive of a folder', { skip: needsRoot }, () => {
  const unpackers = { tar: 'tar -xf', 'tar.gz': 'tar -xzf', zip: 'python3 -m zipfile -e' };
  for (const [format, unpacker] of Object.entries(unpackers)) {
    it(`an archive of a folder is a ${format} that others unpack`, async () => {
      mkdirSync(inside('tree'));
      makeTree(inside('tree'));
      writeFileSync(join(scratch, 'archive'), (await download('tree', format)).bytes);
      mkdirSync(join(scratch, 'out'));
      shell(`${unpacker} ../archive ${format === 'zip' ? '.' : ''}`, join(scratch, 'out'));
      assert.deepEqual(tree(join(scratch, 'out')), tree(inside('tree')));
      assert.ok(readFileSync(join(scratch, 'out/large')).equals(readFileSync(inside('tree/large'))));
    });

    it(`an archive of a folder is a ${format} that comes back as it was`, async () => {
      mkdirSync(inside('tree'));
      makeTree(inside('tree'));
      const answer = await upload((await download('tree', format)).bytes, 'back/again');
      assert.equal(answer.status, 200, JSON.stringify(answer.json));
      assert.deepEqual(tree(inside('back/again')), tree(inside('tree')));
      assert.equal(answer.json.sizeBytes, 1_500_000 + 1 + 10 + 9 + 7);
      assert.equal(readlinkSync(inside('back/again/link')), 'sub/program');
      const { mode, uid } = statSync(inside('back/again/sub/program'));
      assert.deepEqual([mode & 0o777, uid], [0o755, agent.user.uid]);
      assert.equal(statSync(inside('back/again/a.txt')).mtimeMs, 1_000_000_000_000);
    });
  }

  it('an archive of a folder leaves pipes out, holds hard links twice, and may be of one file', async () => {
    mkdirSync(inside('tree'));
    writeFileSync(inside('tree/file'), 'x');
    linkSync(inside('tree/file'), inside('tree/same'));
    execFileSync('mkfifo', [inside('tree/pipe')]);
    await upload((await download('tree', 'tar')).bytes, 'back');
    assert.deepEqual(tree(inside('back')), ['./file', './same']);
    await upload((await download('tree/file', 'tar')).bytes, 'one');
    assert.deepEqual(tree(inside('one')), ['./file']);
  });

  it('an archive of a folder has names of any bytes as a tar; a zip cannot have them', async () => {
    mkdirSync(inside('tree'));
    for (const name of [Buffer.from([0xff, 0x0a]), Buffer.concat([Buffer.alloc(200, 'n'), Buffer.from([0xfe])])])
      writeFileSync(Buffer.concat([Buffer.from(inside('tree/')), name]), 'x');
    await upload((await download('tree', 'tar.gz')).bytes, 'back');
    const names = (path: string) => readdirSync(inside(path), { encoding: 'buffer' }).map(String).sort();
    assert.deepEqual(names('back'), names('tree'));
    await assert.rejects(download('tree', 'zip'));
  });

  it('an archive of a folder is of what exists, in a format that exists', async () => {
    assert.equal((await download('nothing', 'tar')).status, 404);
    assert.equal((await download('.', 'rar')).status, 400);
  });
});

describe('an archive that others packed', { skip: needsRoot }, () => {
  for (const [name, packer] of Object.entries({
    'GNU tar': 'tar --format=gnu -cf',
    'POSIX tar': 'tar --format=pax -cf',
    'old tar': 'tar --format=v7 --exclude=deep --exclude="*größe*" -cf',
    'tar with gzip': 'tar -czf',
    'tar with zstd': 'tar --zstd -cf',
    "Python's zip": 'python3 -m zipfile -c',
  })) {
    it(`an archive that others packed with ${name} is unpacked`, async (test) => {
      mkdirSync(join(scratch, 'in'));
      makeTree(join(scratch, 'in'));
      if (name === "Python's zip") rmSync(join(scratch, 'in/link'));
      if (name.includes('zstd') && !existsSync('/usr/bin/zstd')) return test.skip('no zstd here');
      shell(`${packer} ../archive *`, join(scratch, 'in'));
      const answer = await upload(readFileSync(join(scratch, 'archive')), 'out');
      assert.equal(answer.status, 200, JSON.stringify(answer.json));
      const expected = tree(join(scratch, 'in')).filter((path) => name !== 'old tar' || !/deep|größe/.test(path));
      assert.deepEqual(tree(inside('out')), expected);
      assert.ok(readFileSync(inside('out/large')).equals(readFileSync(join(scratch, 'in/large'))));
    });
  }

  it('an archive that others packed with hard links keeps them', async () => {
    mkdirSync(join(scratch, 'in'));
    writeFileSync(join(scratch, 'in/a'), 'x');
    linkSync(join(scratch, 'in/a'), join(scratch, 'in/b'));
    shell('tar -cf ../archive a b', join(scratch, 'in'));
    await upload(readFileSync(join(scratch, 'archive')), 'out');
    assert.equal(statSync(inside('out/a')).ino, statSync(inside('out/b')).ino);
  });
});

describe('unpacking', { skip: needsRoot }, () => {
  it('unpacking joins folders and replaces files', async () => {
    mkdirSync(inside('there/sub'), { recursive: true });
    writeFileSync(inside('there/sub/kept'), 'kept');
    writeFileSync(inside('there/sub/old'), 'old');
    await upload(
      tarOf([{ name: 'sub/old' }, 'new'], [{ name: './sub/more/', flag: '5' }], [{ name: 'sub/more/x' }, 'x']),
      'there',
    );
    assert.deepEqual(tree(inside('there')), ['./sub', './sub/kept', './sub/more', './sub/more/x', './sub/old']);
    assert.equal(readFileSync(inside('there/sub/old'), 'utf8'), 'new');
  });

  it('unpacking can be unpacked again over folders that it has closed to writing', async () => {
    const closed = { flag: '5', mode: 0o555 } as const;
    const archive = (content: string) =>
      tarOf(
        [{ name: 'outer/', ...closed }],
        [{ name: 'outer/inner/', ...closed }],
        [{ name: 'outer/inner/file' }, content],
      );
    for (const content of ['first', 'second']) {
      assert.equal((await upload(archive(content))).status, 200, content);
      assert.equal(readFileSync(inside('outer/inner/file'), 'utf8'), content);
      for (const folder of ['outer', 'outer/inner']) assert.equal(statSync(inside(folder)).mode & 0o777, 0o555);
    }
  });

  it('unpacking is refused before its end, and the connection goes on to the next request', {
    timeout: 20_000,
  }, async () => {
    // While the zeros are unpacked, the random bytes fill the buffers of the streams, so that more stay unread.
    const zeros: [{ name: string }, string] = [{ name: 'zeros' }, '\0'.repeat(32 * 1024 * 1024)];
    const rest: [{ name: string }, string] = [{ name: 'rest' }, randomBytes(160 * 1024).toString('hex')];
    const body = gzipSync(tarOf(zeros, file('../escaped'), rest));
    for (let turn = 0; turn < 3; turn += 1) {
      const { status, json } = await upload(body);
      assert.deepEqual([status, json.error.code], [400, 'bad_archive']);
    }
  });

  it('unpacking takes the last of several entries of one name, and no set-uid bits', async () => {
    await upload(tarOf([{ name: 'a' }, 'first'], [{ name: 'a', mode: 0o6755 }, 'second']), 'out');
    assert.equal(readFileSync(inside('out/a'), 'utf8'), 'second');
    assert.equal(statSync(inside('out/a')).mode & 0o7777, 0o755);
  });

  it('unpacking changes nothing where a file and a folder would have to take each other’s place', async () => {
    mkdirSync(inside('there/folder'), { recursive: true });
    writeFileSync(inside('there/file'), 'file');
    for (const name of ['folder', 'file/below']) {
      const answer = await upload(tarOf([{ name: 'first' }, 'x'], [{ name }, 'x']), 'there');
      assert.deepEqual([answer.status, answer.json.error.code], [409, 'conflict'], name);
      assert.deepEqual(tree(inside('there')), ['./file', './folder']);
    }
  });

  it('unpacking goes through no link of the place that it unpacks into', async () => {
    mkdirSync(inside('there'));
    symlinkSync(scratch, inside('there/link'));
    const answer = await upload(tarOf([{ name: 'link/file' }, 'x']), 'there');
    assert.equal(answer.json.error.code, 'conflict');
    assert.deepEqual(readdirSync(scratch), []);
  });
});

const link = (name: string, linkName: string, flag = '2') => [{ name, flag, linkName }] as const;
const file = (name: string) => [{ name }, 'content'] as [{ name: string }, string];
const refused: [title: string, archive: () => Buffer, why: RegExp][] = [
  ['climbs out', () => tarOf(file('fine'), file('../escaped')), /leads out of the directory/],
  ['climbs out in the middle', () => tarOf(file('a/../../escaped')), /leads out of the directory/],
  ['is absolute', () => tarOf(file('/escaped')), /absolute/],
  ['links to an absolute path', () => tarOf([...link('l', '/etc')]), /leads out/],
  ['links out', () => tarOf([...link('a/l', '../../x')]), /leads out/],
  [
    'links out by another link',
    () => tarOf([{ name: 'd/', flag: '5' }], [...link('d/up', '..')], [...link('out', 'd/up/..')]),
    /after a name/,
  ],
  ['writes through a link', () => tarOf([...link('l', 'd')], file('l/file')), /below an entry that is not a directory/],
  [
    'replaces a folder by a link',
    () => tarOf(file('d/file'), [...link('d', 'elsewhere')], file('d/x')),
    /both as a directory and as a file/,
  ],
  ['has a hard link to what is outside', () => tarOf([...link('h', '/etc/passwd', '1')]), /absolute/],
  [
    'has a hard link to what is not in it',
    () => tarOf([...link('h', 'nothing', '1')]),
    /does not precede it in the archive/,
  ],
  [
    'has a hard link to a link',
    () => tarOf([...link('l', 'x')], [...link('h', 'l', '1')]),
    /does not precede it in the archive/,
  ],
  ['has a device', () => tarOf([{ name: 'null', flag: '3' }]), /a device/],
  ['has a pipe', () => tarOf([{ name: 'pipe', flag: '6' }]), /a pipe/],
  ['has a name that is too long', () => tarOf(file('n'.repeat(256))), /too long/],
  [
    'has a record without end',
    () => tarOf([{ name: 'x', flag: 'L', size: 2 ** 40 }]),
    /extended header that is too large/,
  ],
  [
    'breaks off in a file',
    () => tarOf(file('fine'), [{ name: 'cut', size: 100_000 }, 'short']),
    /ends before its last entry/,
  ],
  [
    'breaks off in its compression',
    () => gzipSync(tarOf([{ name: 'fine' }, 'x'.repeat(9999)])).subarray(0, 60),
    /compressed data is corrupt/,
  ],
  ['is something else', () => Buffer.alloc(5000, 'something else'), /not a valid tar/],
  ['is a zip without an end', () => Buffer.from('PK\x03\x04 and nothing else'), /not a valid zip/],
  ['is empty', () => Buffer.alloc(0), /empty/],
];

describe('an archive is refused, and nothing is written, when it', { skip: needsRoot }, () => {
  for (const [title, archive, why] of refused) {
    it(title, async () => {
      writeFileSync(inside('kept'), 'kept');
      const answer = await upload(archive(), 'fresh/place');
      assert.deepEqual([answer.status, answer.json?.error.code], [400, 'bad_archive'], answer.json?.error.message);
      assert.match(answer.json.error.message, why);
      assert.deepEqual(tree(agent.workspace), ['./kept']);
    });
  }

  for (const [title, script, why] of [
    ['is a zip that climbs out', 'z.writestr("../escaped", "x")', /leads out of the directory/],
    ['is a zip with an absolute name', 'z.writestr("/escaped", "x")', /absolute/],
    ['is a zip with backslashes', 'z.writestr("..\\\\escaped", "x")', /backslash/],
    [
      'is a zip that links out',
      'i = zipfile.ZipInfo("l"); i.create_system = 3; i.external_attr = 0o120777 << 16; z.writestr(i, "/etc/passwd")',
      /leads out/,
    ],
    [
      'is a zip with a device',
      'i = zipfile.ZipInfo("d"); i.create_system = 3; i.external_attr = 0o20666 << 16; z.writestr(i, "")',
      /device/,
    ],
  ] as const) {
    it(title, async () => {
      shell(
        `python3 -c '${`import zipfile\nwith zipfile.ZipFile("archive", "w") as z:\n    ${script}`.replaceAll("'", `'"'"'`)}'`,
      );
      const answer = await upload(readFileSync(join(scratch, 'archive')), 'fresh');
      assert.deepEqual([answer.status, answer.json?.error.code], [400, 'bad_archive'], answer.json?.error.message);
      assert.match(answer.json.error.message, why);
      assert.deepEqual(readdirSync(agent.workspace), []);
    });
  }
});
