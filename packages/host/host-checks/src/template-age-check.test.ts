import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { checkTemplateAges } from './template-age-check.ts';

const NOW = Date.UTC(2026, 5, 30, 12);
const daysAgo = (days: number) => new Date(NOW - days * 86_400_000).toISOString();

let cacheDir: string;
beforeEach(() => {
  cacheDir = mkdtempSync(join(tmpdir(), 'cloche-ages-'));
});
afterEach(() => rmSync(cacheDir, { recursive: true }));

function version(slug: string, name: string, manifest: { builtAt: string; packagesAt?: string }, checkedAt?: string) {
  const folder = join(cacheDir, 'templates', slug, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ version: name, ...manifest }));
  if (checkedAt !== undefined) writeFileSync(join(folder, 'checked-at'), checkedAt);
}
const check = async () =>
  (await checkTemplateAges(cacheDir, NOW)).map(({ name, status, found }) => `${name}: ${status}, ${found}`);

describe('the age of a curated template', () => {
  it('the age of a curated template is that of its newest version, and names the remedy once it is more than 30 days', async () => {
    version('node', 'one', { builtAt: daysAgo(30) });
    version('python-node', 'old', { builtAt: daysAgo(90) });
    version('python-node', 'new', { builtAt: daysAgo(31) });
    assert.deepEqual(await check(), [
      'template node: ok, packages of 30 days ago (one)',
      'template python-node: warning, packages of 31 days ago (new)',
    ]);
    const [, old] = await checkTemplateAges(cacheDir, NOW);
    assert.match(old?.remedy ?? '', /`npx cloche template refresh python-node`/);
  });

  it('the age of a curated template is that of the packages where an earlier version is used again, and of the last build that gave the same', async () => {
    version('back', 'first', { builtAt: daysAgo(40) });
    version('back', 'again', { builtAt: daysAgo(1), packagesAt: daysAgo(40) });
    version('same', 'one', { builtAt: daysAgo(50) }, daysAgo(0));
    assert.deepEqual(await check(), [
      'template back: warning, packages of 40 days ago (again)',
      'template same: ok, packages of today (one)',
    ]);
  });

  it('the age of a curated template is not checked on a machine without templates', async () =>
    assert.deepEqual(await check(), []));
});
