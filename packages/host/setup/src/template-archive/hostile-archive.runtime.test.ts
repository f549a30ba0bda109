/** Archives of templates that were damaged or forged. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { writeTarHeader } from '@cloche/archive';
import { needsRoot } from '@cloche/testkit/needs-root';
import { TwoCaches } from '../../testing/two-caches.ts';
import { versionFolder } from '../templates/cached-versions.ts';
import { type ArchivePart, LIST_NAME, writeList } from './archive-list.ts';
import type { ImportOptions } from './import-templates.ts';

let caches: TwoCaches;
beforeEach(async () => {
  caches = await TwoCaches.make();
});
afterEach(() => caches[Symbol.dispose]());

interface Entry {
  name: string;
  bytes: Buffer;
  flag?: string;
}

/** Returns the entries of the archive. */
function entries(): Entry[] {
  const names = execFileSync('tar', ['-tf', caches.archive], { encoding: 'utf8' }).trim().split('\n');
  return names.map((name) => ({
    name,
    bytes: execFileSync('tar', ['-xOf', caches.archive, name], { maxBuffer: 64 * 1024 * 1024 }),
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
    digest: caches.version.digest,
    sizeBytes: packed.length,
    plainBytes: plain.length,
    sha256: createHash('sha256').update(packed).digest('hex'),
  } as const;
  const part = { ...own, ...change(own) } as ArchivePart;
  writeFileSync(
    caches.archive,
    tarOf([
      { name: LIST_NAME, bytes: writeList([part]) },
      { name: part.name, bytes: packed },
    ]),
  );
}

/** Returns a tar of a version with some of its files changed. */
function versionTar(change: Partial<Record<'manifest.json' | 'recipe-digest', (text: string) => string>> = {}): Buffer {
  const own = versionFolder(caches.version, caches.from);
  const files = (['manifest.json', 'recipe-digest'] as const).map((name) => {
    const text = readFileSync(join(own, name), 'utf8');
    return { name, bytes: Buffer.from(change[name]?.(text) ?? text) };
  });
  return tarOf([...files, { name: 'rootfs/', bytes: Buffer.alloc(0), flag: '5', mode: 0o755 }]);
}

async function refuses(message: RegExp, options: Partial<ImportOptions> = {}): Promise<void> {
  await assert.rejects(caches.read(options), { name: 'SetupError', message });
  assert.deepEqual(caches.cached(), [], 'nothing is left');
}

describe('a damaged or forged archive of templates', { skip: needsRoot }, () => {
  it('a damaged or forged archive of templates is refused whole if it is cut off, has a changed byte, or lacks an entry', async () => {
    await caches.write();
    const whole = readFileSync(caches.archive);
    const [list, template, guest] = entries() as [Entry, Entry, Entry];
    for (const length of [0, 100, 10_000, 17_500, whole.length - 2000, whole.length - 1100]) {
      writeFileSync(caches.archive, whole.subarray(0, length));
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
      writeFileSync(caches.archive, tarOf(changed));
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
      writeFileSync(caches.archive, tarOf(changed));
      await refuses(message);
    }
    rmSync(caches.archive);
    await refuses(/templates\.tar does not exist/);
  });

  it('a damaged or forged archive of templates is refused if its list is invalid, of another format or machine, or names something twice', async () => {
    await caches.write();
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
      writeFileSync(caches.archive, tarOf([{ ...list, bytes }, template, guest]));
      await refuses(message);
    }
    writeFileSync(caches.archive, tarOf([{ ...list, bytes: Buffer.alloc(100_000, ' ') }, template, guest]));
    await refuses(/no archive of `cloche template export`/);
  });

  it('a damaged or forged archive of templates is refused if a tar in it leads out of its folder, and writes nothing there', async () => {
    const outside = join(caches.folder, 'outside');
    const empty = Buffer.alloc(0);
    for (const forged of [
      [{ name: `../../../../outside`, bytes: empty }],
      [{ name: outside, bytes: empty }],
      [
        { name: 'rootfs', bytes: empty, flag: '5' },
        { name: 'rootfs/link', bytes: empty, flag: '2', linkName: caches.folder },
        { name: 'rootfs/link/outside', bytes: empty },
      ],
      [
        { name: 'rootfs', bytes: empty, flag: '5' },
        { name: 'rootfs/file', bytes: empty, flag: '1', linkName: caches.archive },
      ],
      [{ name: 'rootfs', bytes: empty, flag: '3' }],
    ]) {
      forge(tarOf(forged));
      await refuses(/cannot be imported: ".*" /);
      assert.ok(!existsSync(outside));
    }
  });

  it('a damaged or forged archive of templates is refused if it unpacks to more than its list names, or to more than the disk has', async () => {
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

  it('a damaged or forged archive of templates is refused if a manifest is not that of the version, or is from the future', async () => {
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
    await refuses(/is yet to come/, { now: () => Date.parse(caches.version.builtAt) - 3 * 86_400_000 });
    forge(versionTar());
    assert.equal((await caches.read()).length, 1, 'the forged one is no other without a change');
  });
});
