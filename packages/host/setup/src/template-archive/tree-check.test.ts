import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ArchiveEntry } from '@cloche/archive';
import type { ArchivePart } from './archive-list.ts';
import { TreeCheck } from './tree-check.ts';

type Entry = Partial<ArchiveEntry> & { name: string };

function entry(given: Entry): ArchiveEntry {
  const content = { async *[Symbol.asyncIterator]() {} };
  return { type: 'file', mode: 0o644, mtime: 1, target: '', sizeBytes: 0, uid: 0, gid: 0, content, ...given };
}

const directory = (name: string, more: Partial<ArchiveEntry> = {}): Entry => ({ name, type: 'directory', ...more });
const ROOT = directory('rootfs/', { mode: 0o755 });

/** Returns the paths of the entries, or throws at the first that is refused. */
function admit(entries: readonly Entry[], kind: ArchivePart['kind'] = 'template', limits = {}): string[] {
  const check = new TreeCheck(kind, limits);
  return entries.map((each) => check.admit(entry(each)));
}

function refuses(entries: readonly Entry[], message: RegExp, kind: ArchivePart['kind'] = 'template', limits = {}) {
  admit(entries.slice(0, -1), kind, limits);
  assert.throws(() => admit(entries, kind, limits), { code: 'bad_archive', message }, JSON.stringify(entries.at(-1)));
}

describe('the tar of a template version', () => {
  it('the tar of a template version may have links to anywhere, set-id programs and attributes, which mean something only in a sandbox', () => {
    const xattrs = new Map([
      ['security.capability', 'x'],
      ['user.note', 'y'],
    ]);
    const entries = [
      { name: 'manifest.json' },
      { name: 'recipe-digest' },
      ROOT,
      directory('rootfs/usr'),
      { name: 'rootfs/usr/su', mode: 0o4755, xattrs },
      { name: 'rootfs/usr/same', type: 'hardlink', target: 'rootfs/usr/su' },
      { name: 'rootfs/bin', type: 'symlink', target: '/usr/bin' },
      { name: 'rootfs/up', type: 'symlink', target: '../../..' },
    ] as const;
    assert.deepEqual(admit(entries).slice(2), ['rootfs', ...entries.slice(3).map(({ name }) => name)]);
  });

  it('the tar of a template version must not lead out of its folder', () => {
    refuses([{ name: '../etc/passwd' }], /leads out of the directory/);
    refuses([ROOT, { name: 'rootfs/../../etc/passwd' }], /leads out of the directory/);
    refuses([{ name: '/etc/passwd' }], /is absolute/);
    refuses([ROOT, { name: 'rootfs/a\0b' }], /NUL/);
    refuses(
      [ROOT, { name: 'rootfs/link', type: 'symlink', target: '/etc' }, { name: 'rootfs/link/passwd' }],
      /in no dir/,
    );
    refuses([ROOT, { name: 'rootfs/file' }, { name: 'rootfs/file/below' }], /in no directory/);
    refuses([ROOT, { name: 'rootfs/missing/file' }], /in no directory/);
    refuses([{ name: './', type: 'symlink', target: '/etc' }], /is no directory/);
    refuses([{ name: '.' }], /is no directory/);
  });

  it('the tar of a template version must have hard links only to files before them', () => {
    const link = { name: 'rootfs/link', type: 'hardlink' } as const;
    for (const target of ['/etc/shadow', '../../etc/shadow', 'rootfs/../../etc/shadow'])
      refuses([ROOT, { ...link, target }], /is a hard link whose target/);
    for (const target of ['rootfs/later', 'rootfs/link', 'rootfs', ''])
      refuses([ROOT, { ...link, target }], /which is no file before it/);
    const symlink = { name: 'rootfs/symlink', type: 'symlink', target: '/etc/shadow' } as const;
    refuses([ROOT, symlink, { ...link, target: 'rootfs/symlink' }], /which is no file before it/);
  });

  it('the tar of a template version must not have an entry twice, whatever is written before', () => {
    refuses([ROOT, { name: 'rootfs/a' }, { name: 'rootfs/a' }], /is there twice/);
    refuses([ROOT, { name: 'rootfs/a' }, { name: './rootfs//a' }], /is there twice/);
    refuses([ROOT, { name: 'rootfs/a' }, { name: 'rootfs/a', type: 'symlink', target: '/etc' }], /is there twice/);
    refuses([ROOT, directory('rootfs')], /is there twice/);
  });

  it('the tar of a template version must have nothing but a version, with all of its files', () => {
    refuses([{ name: 'another' }], /is no part of a template version/);
    refuses([{ name: 'rootfs', type: 'symlink', target: '/' }], /is no part of a template version/);
    refuses([directory('manifest.json')], /is no part of a template version/);
    refuses([{ name: 'manifest.json', sizeBytes: 5_000_000 }], /is too large/);
    const check = new TreeCheck('template');
    for (const each of [ROOT, { name: 'manifest.json' }]) check.admit(entry(each));
    assert.throws(() => check.requireWhole(), /"recipe-digest" is missing/);
  });

  it('the tar of a template version must have owners of a sandbox, valid links and known attributes', () => {
    for (const owner of [{ uid: 65_536 }, { gid: 100_000 }, { uid: -1 }, { uid: 0.5 }, { gid: Number.NaN }])
      refuses([ROOT, { name: 'rootfs/a', ...owner }], /the ids of a sandbox end at/);
    for (const target of ['', 'a\0b', 'a'.repeat(4096)])
      refuses([ROOT, { name: 'rootfs/a', type: 'symlink', target }], /link with an invalid target/);
    for (const name of ['trusted.overlay.redirect', 'security.selinux', 'system.posix_acl_access', 'user.', 'user.a b'])
      refuses([ROOT, { name: 'rootfs/a', xattrs: new Map([[name, 'x']]) }], /has the attribute/);
  });

  it('the tar of a template version must not have more entries or longer names than fit into memory', () => {
    const many = Array.from({ length: 5 }, (_, index) => ({ name: `rootfs/${index}` }));
    refuses([ROOT, ...many], /over the limit/, 'template', { maxEntries: 5 });
    refuses([ROOT, { name: 'rootfs/long' }], /over the limit/, 'template', { maxNameBytes: 16 });
    refuses([ROOT, { name: `rootfs/${'n'.repeat(256)}` }], /name that is too long/);
  });
});

describe('the tar of guest files', () => {
  it('the tar of guest files has files that only root can write, and no links', () => {
    assert.deepEqual(admit([directory('./'), directory('./bin'), { name: './bin/node', mode: 0o755 }], 'guest'), [
      '',
      'bin',
      'bin/node',
    ]);
    refuses([{ name: 'a', type: 'symlink', target: 'b' }], /is a link/, 'guest');
    refuses([{ name: 'a' }, { name: 'b', type: 'hardlink', target: 'a' }], /is a link/, 'guest');
    const wrong = [{ uid: 1 }, { gid: 1 }, { mode: 0o4755 }, { mode: 0o2755 }, { mode: 0o666 }, { mode: 0o664 }];
    for (const each of wrong) refuses([{ name: 'a', ...each }], /that guest files do not have/, 'guest');
    refuses([{ name: 'a', xattrs: new Map([['user.a', 'x']]) }], /that guest files do not have/, 'guest');
  });
});
