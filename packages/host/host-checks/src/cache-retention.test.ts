import assert from 'node:assert/strict';
import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { cachePaths, guestUse, recordUse, templateUse } from '@cloche/layout';
import { cacheRetentionOf, listOldVersions, removeUnused, sizeOf } from './cache-retention.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2026-06-01T00:00:00Z');

let cacheDir: string;
beforeEach(() => {
  cacheDir = mkdtempSync(join(tmpdir(), 'cloche-retention-'));
});
afterEach(() => rmSync(cacheDir, { recursive: true }));

const daysAgo = (days: number) => new Date(NOW - days * DAY);
const used = (use: string, days: number) => recordUse(cachePaths(cacheDir).usedDir, use, daysAgo(days));
const remove = (days = 30) => removeUnused({ cacheDir, retentionMs: days * DAY, now: () => NOW });

function makeGuest(digest: string): string {
  const folder = join(cachePaths(cacheDir).guestDir, digest);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'bin/node'), 'x'.repeat(10_000));
  writeFileSync(join(folder, 'agent.cjs'), '');
  return folder;
}

function makeTemplate(digest: string, builtDaysAgo: number, slug = 'small'): string {
  const folder = join(cachePaths(cacheDir).templatesDir, slug, digest);
  mkdirSync(join(folder, 'rootfs'), { recursive: true });
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ builtAt: daysAgo(builtDaysAgo).toISOString() }));
  return folder;
}

describe('removing unused cache entries', () => {
  it('removing unused cache entries removes guest folders and older template versions after their retention time', async () => {
    const [guest, old] = [makeGuest('a'), makeTemplate('b', 90)];
    const [kept, pinned, newest] = [makeGuest('c'), makeTemplate('e', 85), makeTemplate('d', 80)];
    for (const use of [templateUse('b'), templateUse('d')]) used(use, 31);
    used(guestUse('a'), 3);
    used(guestUse('c'), 1);
    used(templateUse('e'), 29);
    assert.deepEqual((await remove()).sort(), [guest, old].sort());
    assert.deepEqual([guest, old, kept, pinned, newest].map(existsSync), [false, false, true, true, true]);
    const uses = [guestUse('c'), templateUse('d'), templateUse('e')];
    assert.deepEqual(readdirSync(cachePaths(cacheDir).usedDir).sort(), uses);
    assert.deepEqual(readdirSync(join(cacheDir, 'building')), []);
  });

  it('removing unused cache entries keeps a guest folder that a sandbox has mounted, however long ago it was used, until the sandbox has ended', async () => {
    const [mounted, other] = [makeGuest('a'), makeGuest('b')];
    for (const digest of ['a', 'b']) used(guestUse(digest), 90);
    const procDir = join(cacheDir, 'proc');
    for (const [pid, guest] of [
      ['self', undefined],
      ['7', undefined],
      ['8', mounted],
    ] as const) {
      const root = join(procDir, pid, 'root/opt/cloche');
      mkdirSync(join(procDir, pid, 'ns'), { recursive: true });
      mkdirSync(root, { recursive: true });
      // Two processes of the sandbox; the root of one has no such folder.
      symlinkSync(pid === 'self' ? 'mnt:[1]' : 'mnt:[2]', join(procDir, pid, 'ns/mnt'));
      if (guest) linkSync(join(guest, 'agent.cjs'), join(root, 'agent.cjs'));
    }
    const removeAt = (now = NOW) => removeUnused({ cacheDir, retentionMs: 100 * DAY, now: () => now, procDir });
    // A sandbox of gVisor may have the other one.
    writeFileSync(join(procDir, '7/cmdline'), 'runsc-sandbox\0boot');
    assert.deepEqual(await removeAt(), []);
    writeFileSync(join(procDir, '7/cmdline'), 'tini\0');
    assert.deepEqual(await removeAt(), [other]);
    rmSync(join(procDir, '8'), { recursive: true });
    assert.deepEqual(await removeAt(), [mounted]);
  });

  it('removing unused cache entries keeps the newest version of each template, whatever its last use', async () => {
    const versions = [makeTemplate('a', 90), makeTemplate('b', 90, 'other')];
    for (const digest of ['a', 'b']) used(templateUse(digest), 90);
    assert.deepEqual(await remove(), []);
    assert.ok(versions.every(existsSync));
  });

  it('removing unused cache entries starts the retention time now for an entry without a recorded use', async () => {
    const guest = makeGuest('a');
    assert.deepEqual(await remove(), []);
    const later = (days: number) => removeUnused({ cacheDir, retentionMs: 30 * DAY, now: () => NOW + days * DAY });
    assert.deepEqual(await later(1), []);
    assert.deepEqual(await later(3), [guest]);
  });

  it('removing unused cache entries works when several processes remove at once', async () => {
    const guests = ['a', 'b', 'c', 'd'].map(makeGuest);
    for (const digest of ['a', 'b', 'c', 'd']) used(guestUse(digest), 31);
    const removed = (await Promise.all([remove(), remove(), remove()])).flat();
    assert.deepEqual(removed.sort(), guests.sort());
  });

  it('removing unused cache entries removes leftovers of interrupted builds, imports and removals, and keeps those under way', async () => {
    for (const folder of ['guest/.building-x', 'building/removed-x', 'building/importing-x', 'building/small']) {
      mkdirSync(join(cacheDir, folder), { recursive: true });
    }
    await remove();
    const soon = readdirSync(cacheDir, { recursive: true }).length;
    await removeUnused({ cacheDir, retentionMs: 30 * DAY, now: () => Date.now() + 2 * DAY });
    assert.deepEqual(
      [soon, readdirSync(cacheDir, { recursive: true }).sort()],
      [6, ['building', 'building/small', 'guest']],
    );
  });

  it('removing unused cache entries counts the bytes that it would free', async () => {
    const guest = makeGuest('a');
    assert.deepEqual(
      (await listOldVersions(cacheDir)).map(({ path, usedAt }) => [path, usedAt]),
      [[guest, undefined]],
    );
    assert.ok((await sizeOf([guest])) >= 10_000);
    assert.equal(await sizeOf([]), 0);
  });
});

describe('CLOCHE_CACHE_RETENTION_MS', () => {
  it('CLOCHE_CACHE_RETENTION_MS is at least two days', () => {
    assert.equal(cacheRetentionOf({ CLOCHE_CACHE_RETENTION_MS: `${2 * DAY}` }), 2 * DAY);
    for (const text of ['0', '86400000', 'x', '']) {
      assert.throws(() => cacheRetentionOf({ CLOCHE_CACHE_RETENTION_MS: text }), { name: 'SettingsError' }, text);
    }
  });
});
