import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { makeSmallRoot, SMALL_RECIPE as RECIPE } from '../../testing/small-template.ts';
import { type BuildOptions, ensureTemplate, refreshTemplate, republishTemplate } from './build-template.ts';
import { findTemplate, listVersions } from './cached-versions.ts';
import type { Recipe } from './recipe.ts';

describe('ensureTemplate', () => {
  let cacheDir: string;
  let builds: number;
  let toolVersion: string;
  beforeEach(async () => {
    cacheDir = await mkdtemp(join(tmpdir(), 'cloche-templates-'));
    builds = 0;
    toolVersion = '1.0';
  });
  afterEach(() => rm(cacheDir, { recursive: true }));

  const makeRoot: BuildOptions['makeRoot'] = async (root) => {
    builds++;
    await makeSmallRoot(root, toolVersion);
  };
  const ensure = (recipe: Recipe = RECIPE, options: Partial<BuildOptions> = {}) =>
    ensureTemplate(recipe, { cacheDir, makeRoot, ...options });

  it('ensureTemplate publishes a version under the digest of its content, with its manifest beside the root', async () => {
    const version = await ensure(RECIPE, { now: () => new Date('2026-03-04T05:06:07Z') });
    const folder = join(cacheDir, 'templates', 'small', version.digest);
    assert.deepEqual((await readdir(folder)).sort(), ['manifest.json', 'recipe-digest', 'rootfs']);
    assert.deepEqual(JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')), version);
    assert.equal(version.id, `tplv_${version.digest.slice(0, 20)}`);
    assert.equal(version.version, `2026.03.04-${version.digest.slice(0, 8)}`);
    assert.equal(version.env?.A, '1');
    assert.deepEqual(version.packages.apt, { tool: '1.0' });
  });

  it('ensureTemplate builds once for a recipe that stays', async () => {
    const first = await ensure();
    assert.deepEqual(await ensure({ ...RECIPE }), first);
    assert.equal(builds, 1);
  });

  it('ensureTemplate keeps the old version beside the one of a changed recipe', async () => {
    const first = await ensure();
    const second = await ensure({ ...RECIPE, env: {} });
    assert.deepEqual(
      (await readdir(join(cacheDir, 'templates', 'small'))).sort(),
      [first.digest, second.digest].sort(),
    );
  });

  it('ensureTemplate builds once when two ask at the same time', async () => {
    const [one, other] = await Promise.all([ensure(), ensure()]);
    assert.deepEqual(one, other);
    assert.equal(builds, 1);
  });

  it('ensureTemplate publishes nothing of a build that fails, and builds again', async () => {
    const failing: BuildOptions['makeRoot'] = async (root) => {
      await makeSmallRoot(root);
      throw new Error('the network is gone');
    };
    await assert.rejects(ensure(RECIPE, { makeRoot: failing }), /the network is gone/);
    assert.equal(await findTemplate(RECIPE, cacheDir), undefined);
    await ensure();
    assert.equal(builds, 1);
  });

  it('ensureTemplate takes what a killed build left for no template, and clears it away', async () => {
    const program = `
      import { ensureTemplate } from ${JSON.stringify(new URL('./build-template.ts', import.meta.url).href)};
      import { mkdir, writeFile } from 'node:fs/promises';
      await ensureTemplate(${JSON.stringify(RECIPE)}, { cacheDir: ${JSON.stringify(cacheDir)}, makeRoot: async (root) => {
        await mkdir(root);
        await writeFile(root + '/half', '');
        console.log('half');
        await new Promise((resolve) => setTimeout(resolve, 60_000));
      } });`;
    const builder = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(builder.stdout, 'data');
    builder.kill('SIGKILL');
    await once(builder, 'exit');

    assert.equal(await findTemplate(RECIPE, cacheDir), undefined);
    const version = await ensure();
    assert.deepEqual(await readdir(join(cacheDir, 'templates', 'small', version.digest, 'rootfs')), ['var']);
    assert.deepEqual((await readdir(join(cacheDir, 'building'))).sort(), ['small.lock', 'small.log']);
  });
});

describe('a template that is built again', () => {
  let cacheDir: string;
  let toolVersion: string;
  let day: number;
  beforeEach(async () => {
    cacheDir = await mkdtemp(join(tmpdir(), 'cloche-templates-'));
    toolVersion = '1.0';
    day = 1;
  });
  afterEach(() => rm(cacheDir, { recursive: true }));

  const options = (): BuildOptions => ({
    cacheDir,
    makeRoot: (root) => makeSmallRoot(root, toolVersion),
    now: () => new Date(Date.UTC(2026, 0, day)),
  });
  const folderOf = ({ digest }: { digest: string }) => join(cacheDir, 'templates', 'small', digest);

  it('a template that is built again has a new version with the packages of today, which is then the newest one; the old one stays', async () => {
    const first = await ensureTemplate(RECIPE, options());
    [toolVersion, day] = ['1.1', 2];
    const { version, isNew } = await refreshTemplate(RECIPE, options());
    assert.deepEqual([isNew, version.packages.apt], [true, { tool: '1.1' }]);
    assert.deepEqual(await findTemplate(RECIPE, cacheDir), version);
    assert.deepEqual(await ensureTemplate(RECIPE, options()), version, 'also after a restart');
    assert.deepEqual(await readdir(join(folderOf(first), 'rootfs')), ['var']);
  });

  it('a template that is built again keeps its version where no package has changed, and notes when that was seen', async () => {
    const first = await ensureTemplate(RECIPE, options());
    day = 5;
    assert.deepEqual(await refreshTemplate(RECIPE, options()), { version: first, isNew: false });
    assert.equal(await readFile(join(folderOf(first), 'checked-at'), 'utf8'), '2026-01-05T00:00:00.000Z');
    assert.deepEqual(await readdir(join(cacheDir, 'building')), ['small.lock']);
  });

  it('a template that is built again goes back to an earlier version as its newest one, of the same files and the age of its packages', async () => {
    const first = await ensureTemplate(RECIPE, options());
    [toolVersion, day] = ['1.1', 2];
    const { version: second } = await refreshTemplate(RECIPE, options());
    day = 3;
    const back = await republishTemplate(RECIPE, first, options());
    assert.deepEqual(await findTemplate(RECIPE, cacheDir), back);
    assert.deepEqual(
      [back.packages, back.builtAt, back.packagesAt],
      [first.packages, '2026-01-03T00:00:00.000Z', first.builtAt],
    );
    assert.deepEqual(
      (await listVersions(RECIPE, cacheDir)).map(({ id }) => id),
      [back.id, second.id, first.id],
    );
    const inode = async (version: { digest: string }) =>
      (await stat(join(folderOf(version), 'rootfs/var/lib/dpkg/status'))).ino;
    assert.equal(await inode(back), await inode(first));
    day = 4;
    const again = await refreshTemplate(RECIPE, options());
    assert.deepEqual([again.isNew, again.version.packages.apt], [true, { tool: '1.1' }], 'and forward again');
    assert.notEqual(again.version.id, second.id);
  });
});
