import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import { createGzip, gzipSync } from 'node:zlib';
import { writeTarHeader } from '@cloche/archive';
import type { OrgId } from '@cloche/contract';
import {
  fileAt,
  linkTo,
  makeWorkspace,
  PACKERS,
  packWith,
  tarOf,
  WORKSPACE_BYTES,
  writeZip,
} from '../../../../testing/archives.ts';
import { ArchiveJudge, type Judgement } from './archive-judge.ts';
import { type JudgedFormat, judgeArchive } from './judge-archive.ts';

const ORG = 'org_1' as OrgId;
const LIMITS = { maxEntries: 1000, maxUnpackedBytes: 10_000_000 };
const forever = new AbortController().signal;

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-judge-'));
});
after(() => rmSync(folder, { recursive: true }));

const judge = new ArchiveJudge();
let files = 0;
const path = () => join(folder, `${++files}.archive`);

function judged(bytes: Buffer | string, format: JudgedFormat = 'tar', limits = {}): Promise<Judgement> {
  const file = typeof bytes === 'string' ? bytes : path();
  if (typeof bytes !== 'string') writeFileSync(file, bytes);
  return judge.judge({ file, format, ...LIMITS, ...limits }, ORG, forever);
}

describe('an archive of a real program', () => {
  for (const format of Object.keys(PACKERS) as JudgedFormat[]) {
    it(`as ${format} is accepted and measured`, async () => {
      const workspace = join(folder, `workspace-${format}`);
      makeWorkspace(workspace);
      const file = path();
      packWith(format, workspace, file);
      assert.deepEqual(await judged(file, format), { status: 'accepted', entries: 7, unpackedBytes: WORKSPACE_BYTES });
    });
  }

  it('an archive of a real program with pax headers, hard links and a link inside is accepted', async () => {
    const workspace = join(folder, 'links');
    mkdirSync(join(workspace, 'deep'), { recursive: true });
    execFileSync(
      'sh',
      ['-c', 'echo x > a; ln a b; ln -s ../a deep/l; tar --format=pax -cf "$1" *', 'sh', `${folder}/links.tar`],
      {
        cwd: workspace,
      },
    );
    assert.deepEqual(await judged(`${folder}/links.tar`), { status: 'accepted', entries: 4, unpackedBytes: 2 });
  });

  it('an archive of a real program without entries is accepted', async () => {
    execFileSync('tar', ['-cf', `${folder}/none.tar`, '-T', '/dev/null']);
    assert.deepEqual(await judged(`${folder}/none.tar`), { status: 'accepted', entries: 0, unpackedBytes: 0 });
  });

  it('an archive of a real program is judged by a service of low priority, which it may not raise', () => {
    execFileSync('tar', ['-cf', `${folder}/low.tar`, '-T', '/dev/null']);
    const archive = JSON.stringify({ file: `${folder}/low.tar`, format: 'tar', ...LIMITS });
    const program = `
      import(process.argv[1]).then(async ({ ArchiveJudge }) => {
        const judged = await new ArchiveJudge().judge(${archive}, '${ORG}', new AbortController().signal);
        console.log(judged.status);
      });`;
    const options = ['-e', program, new URL('archive-judge.ts', import.meta.url).href];
    // Root may raise priorities, and without the capability it may not.
    const asUser = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice'] : [];
    const [command = '', ...args] = ['nice', '-n', '15', ...asUser, process.execPath, ...options];
    assert.equal(execFileSync(command, args, { encoding: 'utf8' }), 'accepted\n');
  });

  it('an archive of a real program may have names of any bytes, and archives in it are only files', async () => {
    const nested = `${folder}/nested.zip`;
    writeZip(nested, 'z.writestr("inner.zip", open(sys.argv[1], "rb").read() * 100)');
    assert.equal((await judged(nested, 'zip')).status, 'accepted');
    const archive = tarOf(fileAt('new\nline'), fileAt('\xff\xfe'), fileAt('  '));
    assert.deepEqual(await judged(archive), { status: 'accepted', entries: 3, unpackedBytes: 21 });
  });
});

const device = (flag: string) => [{ name: 'special', flag }] as const;
const refusals: [title: string, archive: () => Buffer, why: RegExp][] = [
  ['climbs out', () => tarOf(fileAt('fine'), fileAt('../escaped')), /"\.\.\/escaped" leads out of the directory/],
  ['climbs out in the middle', () => tarOf(fileAt('a/../../escaped')), /"a\/\.\.\/\.\.\/escaped" leads out/],
  ['is absolute', () => tarOf(fileAt('/escaped')), /"\/escaped" is absolute/],
  ['links to an absolute path', () => tarOf(linkTo('l', '/etc')), /"l" is a link that leads out/],
  ['links out', () => tarOf(linkTo('a/l', '../../x')), /"a\/l" is a link that leads out/],
  [
    'links out by a link before',
    () => tarOf(linkTo('d/up', '..'), linkTo('out', 'd/up/..')),
    /"out" is a link whose target/,
  ],
  [
    'writes through a link',
    () => tarOf(linkTo('l', 'd'), fileAt('l/file')),
    /"l\/file" lies below an entry that is not/,
  ],
  [
    'has a hard link to an absolute path',
    () => tarOf(linkTo('h', '/etc/passwd', '1')),
    /"h" is a hard link whose target is absolute/,
  ],
  ['has a hard link out', () => tarOf(linkTo('h', '../x', '1')), /"h" is a hard link whose target leads out/],
  [
    'has a hard link to a link',
    () => tarOf(linkTo('l', 'x'), linkTo('h', 'l', '1')),
    /"h" is a hard link to a file that/,
  ],
  ['has a hard link to itself', () => tarOf(fileAt('h'), linkTo('h', 'h', '1')), /"h" is a hard link to a file that/],
  ['has a character device', () => tarOf(device('3')), /"special" is a device/],
  ['has a block device', () => tarOf(device('4')), /"special" is a device/],
  ['has a pipe', () => tarOf(device('6')), /"special" is a pipe/],
  ['has a set-user-id program', () => tarOf(fileAt('root', { mode: 0o4755 })), /"root" has a set-user-id/],
  ['has a set-group-id directory', () => tarOf([{ name: 'd/', flag: '5', mode: 0o2775 }]), /"d\/" has a set-user-id/],
  ['ends within a file', () => tarOf(fileAt('a'), [{ name: 'cut', size: 9999 }, 'x']), /ends before its last entry/],
  ['ends within a header', () => tarOf(fileAt('a')).subarray(0, 1300), /ends before its last entry/],
  ['has a damaged header', () => Buffer.alloc(2048, 'text'), /not a valid tar/],
  ['is empty', () => Buffer.alloc(0), /it is empty/],
  ['has more bytes than the disk', () => tarOf([{ name: 'huge', size: 2 ** 40 }]), /"huge" does not fit/],
  ['is of another format', () => gzipSync(tarOf(fileAt('a'))), /it is a tar.gz, not a tar/],
];

describe('an archive is refused when it', () => {
  for (const [title, archive, why] of refusals) {
    it(title, async () => {
      const judgement = await judged(archive());
      assert.equal(judgement.status, 'refused', JSON.stringify(judgement));
      assert.match((judgement as { why: string }).why, why);
    });
  }

  const compressed: [title: string, format: JudgedFormat, archive: () => Buffer | string, why: RegExp][] = [
    ['is cut off in its compression', 'tar.gz', () => gzipSync(tarOf(fileAt('a'))).subarray(0, 60), /corrupt/],
    ['is no gzip', 'tar.gz', () => tarOf(fileAt('a')), /it is not a tar.gz/],
    ['is no zstd', 'tar.zst', () => gzipSync('x'), /it is a tar.gz, not a tar.zst/],
    ['is a sparse tar', 'tar', sparseTar, /"sparse" is a sparse file/],
    ['is a sparse tar of POSIX', 'tar', () => sparseTar('posix'), /sparse" is a sparse file/],
    ['has a million entries', 'tar.gz', () => Buffer.from(readFileSync(manyEntries())), /"1000" is over the limit/],
  ];
  for (const [title, format, archive, why] of compressed) {
    it(title, async () => {
      const judgement = await judged(archive(), format);
      assert.equal(judgement.status, 'refused', JSON.stringify(judgement));
      assert.match((judgement as { why: string }).why, why);
    });
  }

  const zips: [title: string, lines: string[], why: RegExp][] = [
    ['is a zip that climbs out', ['z.writestr("../escaped", "x")'], /"\.\.\/escaped" leads out/],
    ['is a zip with an absolute name', ['z.writestr("/escaped", "x")'], /"\/escaped" is absolute/],
    [
      'is a zip that links out',
      [
        'i = zipfile.ZipInfo("l"); i.create_system = 3; i.external_attr = 0o120777 << 16',
        'z.writestr(i, "/etc/passwd")',
      ],
      /"l" is a link that leads out/,
    ],
    [
      'is a zip with a set-user-id program',
      ['i = zipfile.ZipInfo("root"); i.create_system = 3; i.external_attr = 0o104755 << 16', 'z.writestr(i, "x")'],
      /"root" has a set-user-id/,
    ],
    ['is a zip bomb', ['z.writestr("zeros", bytes(11_000_000), zipfile.ZIP_DEFLATED)'], /"zeros" does not fit/],
  ];
  for (const [title, lines, why] of zips) {
    it(title, async () => {
      const file = path();
      writeZip(file, ...lines);
      const judgement = await judged(file, 'zip');
      assert.equal(judgement.status, 'refused', JSON.stringify(judgement));
      assert.match((judgement as { why: string }).why, why);
    });
  }

  const lies: [title: string, change: (zip: Buffer, central: number) => void, why: RegExp][] = [
    [
      'has another name in the directory of a zip',
      (zip, at) => zip.write('evil', at + 46),
      /differs between the directory/,
    ],
    [
      'has another size in the directory of a zip',
      (zip, at) => zip.writeUInt32LE(zip.readUInt32LE(at + 24) + 1, at + 24),
      /differs between the directory/,
    ],
    [
      'has another size than both headers of a zip state',
      (zip, at) => {
        zip.writeUInt32LE(1, at + 24);
        zip.writeUInt32LE(1, 22);
      },
      /not a valid zip: too many bytes/,
    ],
    ['is damaged in the content of a zip', (zip) => zip.write('X', 30 + 6), /"stored" is damaged/],
    ['ends within the directory of a zip', (zip) => zip.fill(0, zip.length - 22), /not a valid zip/],
  ];
  for (const [title, change, why] of lies) {
    it(title, async () => {
      const file = path();
      const isStored = title.includes('damaged');
      const method = isStored ? 'STORED' : 'DEFLATED';
      writeZip(file, `z.writestr("${isStored ? 'stored' : 'packed'}", "content" * 9, zipfile.ZIP_${method})`);
      const zip = readFileSync(file);
      const central = zip.indexOf('PK\x01\x02');
      change(zip, central);
      const judgement = await judged(zip, 'zip');
      assert.equal(judgement.status, 'refused', JSON.stringify(judgement));
      assert.match((judgement as { why: string }).why, why);
    });
  }

  it('an archive is refused when it has entries that share the bytes of a zip', async () => {
    const file = path();
    // Each entry of the directory refers to the same content, under the name that its header has.
    writeZip(file, 'z.writestr("same", "x" * 1000)', 'z.filelist = z.filelist * 500');
    const judgement = await judged(file, 'zip');
    assert.deepEqual(judgement, { status: 'refused', why: '"same" shares bytes with another entry' });
  });

  it('an archive is refused when it is 10 GB of zeros, as one file or as padding', { timeout: 60_000 }, async () => {
    const file = path();
    const size = 10 * 2 ** 30;
    const zeros = Buffer.alloc(2 ** 20);
    const header = writeTarHeader({ name: 'zeros', flag: '0', mode: 0o644, size, mtime: 0, linkName: '' });
    await pipeline(
      Readable.from([header, ...Array(64).fill(zeros)]),
      createGzip({ level: 1 }),
      createWriteStream(file),
    );
    assert.match(((await judged(file, 'tar.gz')) as { why: string }).why, /"zeros" does not fit/);
    await pipeline(Readable.from(Array(64).fill(zeros)), createGzip({ level: 1 }), createWriteStream(file));
    assert.match(((await judged(file, 'tar.gz')) as { why: string }).why, /more than padding after its end/);
  });
});

function sparseTar(format = 'gnu'): Buffer {
  const script =
    'truncate -s 5M sparse; echo x >> sparse; tar --sparse --format="$1" -cf sparse.tar sparse; cat sparse.tar';
  const cwd = join(folder, `sparse-${format}`);
  mkdirSync(cwd, { recursive: true });
  return execFileSync('sh', ['-c', script, 'sh', format], { cwd });
}

function manyEntries(): string {
  const file = path();
  const one = (index: number) =>
    writeTarHeader({ name: String(index), flag: '0', mode: 0o644, size: 0, mtime: 0, linkName: '' });
  writeFileSync(file, gzipSync(Buffer.concat(Array.from({ length: 100_000 }, (_, index) => one(index))), { level: 1 }));
  return file;
}

describe('judging', () => {
  /** An archive whose reader is busy for a while. */
  const heavy = () => {
    const file = path();
    const entries = Array.from({ length: 20_000 }, (_, index) => fileAt(`${'directory/'.repeat(9)}${index}`));
    writeFileSync(file, gzipSync(tarOf(...entries), { level: 1 }));
    return { file, format: 'tar.gz', maxEntries: 200_000, maxUnpackedBytes: 1e9 } as const;
  };
  /** Returns the milliseconds that this thread computes while `act` runs, which other work on the machine does not change. */
  const busyMs = async (act: () => Promise<unknown>) => {
    const before = process.threadCpuUsage();
    await act();
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000;
  };

  it('judging does not delay the event loop', async () => {
    const archive = heavy();
    const besideThread = await busyMs(() => judge.judge(archive, ORG, forever));
    const withoutThread = await busyMs(() => judgeArchive(archive));
    assert.ok(besideThread < withoutThread / 4, `busy ${besideThread} ms beside a thread, ${withoutThread} ms without`);
  });

  it('judging ends with its time, with its memory, and with its request', async () => {
    const archive = heavy();
    const hasty = await new ArchiveJudge({ judgeMs: 1 }).judge(archive, ORG, forever);
    assert.match((hasty as { why: string }).why, /takes more than 0.001 seconds/);
    const small = await new ArchiveJudge({ heapMb: 8 }).judge(archive, ORG, forever);
    assert.match((small as { why: string }).why, /too much memory/);
    const controller = new AbortController();
    const left = judge.judge(archive, ORG, controller.signal);
    controller.abort(new Error('the client is gone'));
    await assert.rejects(left, /the client is gone/);
  });

  it('judging leaves the archive as it is', async () => {
    const { file, ...rest } = heavy();
    const before = statSync(file).size;
    await judge.judge({ file, ...rest }, ORG, forever);
    assert.equal(statSync(file).size, before);
  });
});
