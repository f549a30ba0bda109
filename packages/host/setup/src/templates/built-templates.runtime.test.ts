/** The templates of this checkout that `prepare` built on this machine. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { cachePaths } from '@cloche/layout';
import { parseDownloadOptions } from './apt-configuration.ts';
import { ensureTemplate } from './build-template.ts';
import { RECIPES_FOLDER, readRecipes } from './recipe.ts';

const cacheDir = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** Folders with configuration; the other files come from packages. */
const CONFIGURATION = [
  'etc',
  'root',
  'home',
  'opt',
  'usr/local/etc',
  'var/lib/apt',
  'usr/local/lib/node_modules/.package-lock.json',
];

const roots: Record<string, string> = {};
before(async () => {
  for (const recipe of await readRecipes(RECIPES_FOLDER)) {
    const { digest } = await ensureTemplate(recipe, { cacheDir });
    roots[recipe.slug] = join(cachePaths(cacheDir).templatesDir, recipe.slug, digest, 'rootfs');
  }
});

const said = (command: string) =>
  execFileSync('sh', ['-c', `${command} || :`], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

/** Returns the files of `root` that contain one of `words`. */
function holding(root: string, words: readonly string[]): string[] {
  const folders = CONFIGURATION.filter((path) => existsSync(join(root, path)));
  const patterns = words.flatMap((word) => ['-e', word]);
  return said(`cd '${root}' && grep -rlIF ${patterns.join(' ')} ${folders.join(' ')}`)
    .split('\n')
    .filter(Boolean);
}

describe('a built template', () => {
  it('a built template keeps nothing of how this machine reaches its registries', () => {
    const proxies = Object.entries(process.env).filter(([name]) => /_proxy$/i.test(name) && !/^no_proxy$/i.test(name));
    const settings = [
      parseDownloadOptions(said('apt-config dump')).join('\n'),
      ...proxies.map(([, value]) => value ?? ''),
      said('npm config get registry'),
      said('python3 -m pip config list'),
    ].join('\n');
    const addresses = settings.match(/https?:\/\/[^\s"';]+/g) ?? [];
    for (const [slug, root] of Object.entries(roots)) {
      const hosts = addresses.map((address) => new URL(address).host).filter((host) => /^[\w.:-]+$/.test(host));
      if (hosts.length > 0)
        assert.deepEqual(
          holding(root, hosts).filter((file) => file !== 'etc/apt/sources.list'),
          [],
          slug,
        );
      assert.ok(!existsSync(join(root, 'etc/apt/apt.conf.d/99mmdebstrap')), slug);
      assert.doesNotMatch(readFileSync(join(root, 'etc/apt/sources.list'), 'utf8'), /\/\/[^/\s]*@|\?|\[/, slug);
    }
  });

  it('a built template has no owner of the ids that it is built with, and no device', () => {
    for (const root of Object.values(roots)) {
      assert.equal(said(`find '${root}' -uid +65535 -o -type b -o -type c -o -type p`), '');
      assert.equal(statSync(join(root, 'usr/local/bin/node')).mode & 0o7777, 0o755);
    }
  });
});
