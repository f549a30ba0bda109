/** Archives of templates, exported and imported as root, with the trees that they stand for. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { chmod, chown, link, symlink, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { writeTarHeader } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { ensureTemplate } from '../templates/build-template.ts';
import { findTemplate, type TemplateVersion, versionFolder } from '../templates/cached-versions.ts';
import { makeSmallRoot, SMALL_RECIPE } from '../testing/small-template.ts';
import { type ArchivePart, writeList } from './archive-list.ts';
import { exportTemplates } from './export-templates.ts';
import { type ImportOptions, importTemplates } from './import-templates.ts';

const GUEST = 'a'.repeat(32);
const LONG = `${'n'.repeat(200)}/${'m'.repeat(200)}`;
const LIST = 'cloche-templates.json';

let folder: string;
let from: string;
let to: string;
let archive: string;
let version: TemplateVersion;
let guestDir: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-archive-'));
  [from, to, archive] = [join(folder, 'from'), join(folder, 'to'), join(folder, 'templates.tar')];
  version = await ensureTemplate(SMALL_RECIPE, { cacheDir: from, makeRoot: makeVariedRoot });
  guestDir = join(from, 'guest', GUEST);
  mkdirSync(join(guestDir, 'bin'), { recursive: true, mode: 0o755 });
  writeFileSync(join(guestDir, 'bin/node'), 'program', { mode: 0o755 });
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Makes entries of every kind that a template can have. */
async function makeVariedRoot(root: string): Promise<void> {
  await makeSmallRoot(root);
  const at = (name: string) => join(root, name);
  mkdirSync(at(LONG), { recursive: true });
  writeFileSync(at(`${LONG}/deep`), 'deep');
  writeFileSync(at('large'), Buffer.alloc(3_000_001, 'large'));
  writeFileSync(at('su'), 'program');
  await chown(at('su'), 0, 65_534);
  await chmod(at('su'), 0o6755);
  python(SET_ATTRIBUTES, at('large'));
  await link(at('su'), at('zz-same'));
  await symlink('/etc/passwd', at('absolute'));
  await symlink('../../../../..', at('climbing'));
  mkdirSync(at('home'), { mode: 0o750 });
  await chown(at('home'), 1000, 1001);
  writeFileSync(at('home/naïve \n name'), '', { mode: 0o400 });
  await utimes(at('home/naïve \n name'), 1, 1234);
}

const SET_ATTRIBUTES = `
import os, sys
os.setxattr(sys.argv[1], "user.note", bytes(range(256)))
os.setxattr(sys.argv[1], "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))`;
/** Prints a line for each entry of a folder. Times of directories and of links have no meaning in a sandbox. */
const LIST_TREE = `
import hashlib, os, stat, sys
first = {}
for folder, folders, files in os.walk(sys.argv[1]):
  for path in [folder] + [os.path.join(folder, name) for name in folders + files]:
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    row = [os.path.relpath(path, sys.argv[1]), oct(s.st_mode), s.st_uid, s.st_gid]
    if kind == stat.S_IFLNK: row.append(os.readlink(path))
    else: row.append([(name, os.getxattr(path, name)) for name in sorted(os.listxattr(path))])
    if kind == stat.S_IFREG:
      row += [s.st_size, int(s.st_mtime), s.st_nlink, hashlib.sha256(open(path, "rb").read()).hexdigest()]
      row.append(first.setdefault(s.st_ino, row[0]))
    print(ascii(row))`;

function python(program: string, ...args: string[]): string {
  return execFileSync('python3', ['-c', program, ...args], { encoding: 'utf8' });
}

/** Returns all that a folder has, but for the times of its directories. */
function treeOf(path: string): string[] {
  return [...new Set(python(LIST_TREE, path).trim().split('\n'))].sort();
}

const write = () => exportTemplates(archive, { cacheDir: from, templates: [version], guestDir });
const read = (options: Partial<ImportOptions> = {}) => importTemplates(archive, { cacheDir: to, ...options });
const statuses = async () => (await read()).map(({ part, wasThere }) => [part.kind, wasThere]);

/** Returns what is in the cache, besides the locks and logs of builds. */
function cached(): string[] {
  const isNote = (name: string) => /^building(\/[^/]*\.(lock|log))?$/.test(name);
  // Node follows links to directories.
  const found = existsSync(to) ? execFileSync('find', [to, '-mindepth', '1', '-printf', '%P\\0']).toString() : '';
  return found.split('\0').filter((name) => name !== '' && !isNote(name));
}

interface Entry {
  name: string;
  bytes: Buffer;
  flag?: string;
}

/** Returns the entries of the archive. */
function entries(): Entry[] {
  const names = execFileSync('tar', ['-tf', archive], { encoding: 'utf8' }).trim().split('\n');
  return names.map((name) => ({
    name,
    bytes: execFileSync('tar', ['-xOf', archive, name], { maxBuffer: 64 * 1024 * 1024 }),
  }));
}

function tarOf(parts: readonly (Entry & { mode?: number; linkName?: string; size?: number })[]): Buffer {
  const blocks = parts.flatMap(({ name, bytes, flag = '0', mode = 0o644, linkName = '', size = bytes.length }) => [
    writeTarHeader({ name, flag, mode, size, mtime: 0, linkName }),
    bytes,
    Buffer.alloc((512 - (bytes.length % 512)) % 512),
  ]);
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** Writes the archive again with a template's tar in place of its own, and with a list that names its digests. */
function forge(plain: Buffer, change: (part: ArchivePart) => object = () => ({}), packed = zstdCompressSync(plain)) {
  const own = {
    kind: 'template',
    name: 'small.tar.zst',
    slug: 'small',
    digest: version.digest,
    sizeBytes: packed.length,
    plainBytes: plain.length,
    sha256: createHash('sha256').update(packed).digest('hex'),
  } as const;
  const part = { ...own, ...change(own) } as ArchivePart;
  writeFileSync(
    archive,
    tarOf([
      { name: LIST, bytes: writeList([part]) },
      { name: part.name, bytes: packed },
    ]),
  );
}

/** Returns a tar of a version with some of its files changed. */
function versionTar(change: Partial<Record<'manifest.json' | 'recipe-digest', (text: string) => string>> = {}): Buffer {
  const own = versionFolder(version, from);
  const files = (['manifest.json', 'recipe-digest'] as const).map((name) => {
    const text = readFileSync(join(own, name), 'utf8');
    return { name, bytes: Buffer.from(change[name]?.(text) ?? text) };
  });
  return tarOf([...files, { name: 'rootfs/', bytes: Buffer.alloc(0), flag: '5', mode: 0o755 }]);
}

async function refuses(message: RegExp, options: Partial<ImportOptions> = {}): Promise<void> {
  await assert.rejects(read(options), { name: 'SetupError', message });
  assert.deepEqual(cached(), [], 'nothing is left');
}

describe('an archive of templates', { skip: needsRoot }, () => {
  it('gives another cache the same versions and guest files, with owners, modes, attributes and links', async () => {
    await write();
    assert.deepEqual(await statuses(), [
      ['template', false],
      ['guest', false],
    ]);
    assert.deepEqual(await findTemplate(SMALL_RECIPE, to), version);
    const own = treeOf(versionFolder(version, from));
    assert.deepEqual(treeOf(versionFolder(version, to)), own);
    assert.ok(own.some((line) => line.includes('user.note')) && own.some((line) => line.includes('security.cap')));
    assert.deepEqual(treeOf(join(to, 'guest', GUEST)), treeOf(guestDir));
    assert.deepEqual(await statuses(), [
      ['template', true],
      ['guest', true],
    ]);
  });

  it('has the same bytes each time, and is the file that was there before until it is whole', async () => {
    await write();
    const first = readFileSync(archive);
    await write();
    assert.ok(readFileSync(archive).equals(first));
    const aborted = exportTemplates(archive, {
      ...{ cacheDir: from, templates: [version], guestDir },
      signal: AbortSignal.abort(new Error('canceled')),
    });
    await assert.rejects(aborted);
    assert.ok(readFileSync(archive).equals(first));
    assert.deepEqual(readdirSync(folder).sort(), ['from', 'templates.tar']);
  });

  it('is refused whole if it is cut off, has a changed byte, or lacks an entry', async () => {
    await write();
    const whole = readFileSync(archive);
    const [list, template, guest] = entries() as [Entry, Entry, Entry];
    for (const length of [0, 100, 10_000, 17_500, whole.length - 2000, whole.length - 1100]) {
      writeFileSync(archive, whole.subarray(0, length));
      await refuses(/templates\.tar cannot be imported: it (is empty|ends before)/);
    }
    const broken = (entry: Entry, at: number) => {
      const bytes = Buffer.from(entry.bytes);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      return { ...entry, bytes };
    };
    for (const changed of [
      [list, template, broken(guest, guest.bytes.length - 20)],
      [list, broken(template, 60), guest],
    ]) {
      writeFileSync(archive, tarOf(changed));
      await refuses(/cannot be imported/);
    }
    for (const [changed, message] of [
      [[template, guest], /no archive of `cloche template export`/],
      [[list, template], /it ends before guest-files\.tar\.zst/],
      [[list, guest, template], /is not what the list/],
      [[list, template, template, guest], /is not what the list/],
      [[list, template, guest, guest], /is not what the list/],
      [[list, { ...template, flag: '2' }, guest], /is not what the list/],
    ] as const) {
      writeFileSync(archive, tarOf(changed));
      await refuses(message);
    }
    rmSync(archive);
    await refuses(/templates\.tar does not exist/);
  });

  it('is refused if its list is invalid, of another format or machine, or names something twice', async () => {
    await write();
    const [list, template, guest] = entries() as [Entry, Entry, Entry];
    const own = JSON.parse(list.bytes.toString());
    const [part] = own.parts;
    for (const [changed, message] of [
      ['no JSON', /is not JSON/],
      ['7', /is not JSON/],
      [{ ...own, format: 2 }, /has format 2, and this release reads format 1/],
      [{ ...own, architecture: own.architecture === 'x64' ? 'arm64' : 'x64' }, /and this machine is/],
      [{ ...own, parts: [] }, /is invalid at \/parts/],
      [{ ...own, parts: [part, part] }, /lists small\.tar\.zst twice/],
      [{ ...own, parts: [part, { ...part, name: 'b' }] }, /lists template small twice/],
      [{ ...own, parts: [{ ...part, slug: '../../etc' }] }, /is invalid/],
      [{ ...own, parts: [{ ...part, digest: '../../etc' }] }, /is invalid/],
      [{ ...own, parts: [{ ...part, name: '../etc' }] }, /is invalid/],
      [{ ...own, parts: [{ ...part, sizeBytes: -1 }] }, /is invalid/],
      [{ ...own, parts: [{ ...part, plainBytes: 1e18 }] }, /is invalid|are free/],
      [{ ...own, parts: Array(17).fill(part) }, /is invalid/],
    ] as const) {
      const bytes = Buffer.from(typeof changed === 'string' ? changed : JSON.stringify(changed));
      writeFileSync(archive, tarOf([{ ...list, bytes }, template, guest]));
      await refuses(message);
    }
    writeFileSync(archive, tarOf([{ ...list, bytes: Buffer.alloc(100_000, ' ') }, template, guest]));
    await refuses(/no archive of `cloche template export`/);
  });

  it('is refused if a tar in it leads out of its folder, and writes nothing there', async () => {
    const outside = join(folder, 'outside');
    const empty = Buffer.alloc(0);
    for (const forged of [
      [{ name: `../../../../outside`, bytes: empty }],
      [{ name: outside, bytes: empty }],
      [
        { name: 'rootfs', bytes: empty, flag: '5' },
        { name: 'rootfs/link', bytes: empty, flag: '2', linkName: folder },
        { name: 'rootfs/link/outside', bytes: empty },
      ],
      [
        { name: 'rootfs', bytes: empty, flag: '5' },
        { name: 'rootfs/file', bytes: empty, flag: '1', linkName: archive },
      ],
      [{ name: 'rootfs', bytes: empty, flag: '3' }],
    ]) {
      forge(tarOf(forged));
      await refuses(/cannot be imported: ".*" /);
      assert.ok(!existsSync(outside));
    }
  });

  it('is refused if it unpacks to more than its list names, or to more than the disk has', async () => {
    const tar = versionTar();
    forge(tar, () => ({ plainBytes: tar.length - 1 }));
    await refuses(/more than the \d+ bytes/);
    forge(Buffer.concat([tar, Buffer.alloc(64 * 1024 * 1024)]), () => ({ plainBytes: 2 ** 40 }));
    await refuses(/padding after its end|are free/);
    forge(tar, () => ({ plainBytes: Number.MAX_SAFE_INTEGER }));
    await refuses(/The archive takes .* MB in .*, where .* MB are free/);
    const garbage = Buffer.from('not compressed');
    forge(tar, () => ({}), garbage);
    await refuses(/its compressed data is corrupt/);
    forge(tar, () => ({ sha256: '0'.repeat(64) }));
    await refuses(/has the SHA-256 [0-9a-f]{64}, and the list names 0{64}/);
  });

  it('is refused if a manifest is not that of the version, or is from the future', async () => {
    const manifest = (change: object) => ({
      'manifest.json': (text: string) => JSON.stringify({ ...JSON.parse(text), ...change }),
    });
    for (const [change, message] of [
      [{ 'manifest.json': () => '{' }, /manifest of small is invalid/],
      [manifest({ languages: 7 }), /manifest of small is invalid/],
      [manifest({ slug: 'node' }), /names the template "node"/],
      [manifest({ packages: { apt: { tool: '2' } } }), /packages of another digest/],
      [manifest({ id: 'tplv_00000000000000000000' }), /id of another version/],
      [manifest({ builtAt: 'tomorrow' }), /id of another version|invalid time/],
      [{ 'recipe-digest': () => 'another' }, /packages of another digest/],
    ] as const) {
      forge(versionTar(change));
      await refuses(message);
    }
    forge(versionTar());
    await refuses(/is yet to come/, { now: () => Date.parse(version.builtAt) - 3 * 86_400_000 });
    forge(versionTar());
    assert.deepEqual(await statuses(), [['template', false]]);
  });

  it('counts not at all if its import is killed, and imports after that', async () => {
    await write();
    const program = `
      import { importTemplates } from ${JSON.stringify(new URL('./import-templates.ts', import.meta.url).href)};
      await importTemplates(${JSON.stringify(archive)}, { cacheDir: ${JSON.stringify(to)}, step: async (title, work) => {
        if (title === 'guest files') await new Promise((resolve) => setTimeout(resolve, 60_000));
        return work(() => undefined);
      } });`;
    const importing = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' });
    const ended = new Promise((resolve) => importing.once('exit', resolve));
    try {
      await eventually(() => cached().some((name) => name.endsWith('rootfs/zz-same')), {
        because: 'the template is unpacked',
      });
    } finally {
      importing.kill('SIGKILL');
      await ended;
    }
    assert.equal(await findTemplate(SMALL_RECIPE, to), undefined);
    assert.ok(!existsSync(join(to, 'templates')) && !existsSync(join(to, 'guest')));
    await read();
    assert.deepEqual(await findTemplate(SMALL_RECIPE, to), version);
  });

  it('leaves nothing if its import is canceled', async () => {
    await write();
    const controller = new AbortController();
    const step: ImportOptions['step'] = async (title, work) => {
      if (title === 'guest files') controller.abort(new Error('canceled'));
      return work(() => undefined);
    };
    await assert.rejects(read({ signal: controller.signal, step }));
    assert.deepEqual(cached(), []);
  });

  it('can be imported twice at once', async () => {
    await write();
    await Promise.all([read(), read(), read()]);
    assert.deepEqual(await findTemplate(SMALL_RECIPE, to), version);
    assert.deepEqual(treeOf(versionFolder(version, to)), treeOf(versionFolder(version, from)));
    assert.deepEqual(readdirSync(join(to, 'building')).sort(), ['import.log', 'small.lock']);
  });
});
