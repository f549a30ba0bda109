import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type BuildOptions, ensureTemplate, findTemplate } from './build-template.ts';
import type { Recipe } from './recipe.ts';

const RECIPE: Recipe = {
  slug: 'small',
  description: 'A small one',
  languages: ['javascript'],
  from: 'debian:bookworm',
  packages: { apt: [], pip: [], npm: [] },
  env: { A: '1' },
  setup: [],
  locks: {},
};

describe('ensureTemplate', () => {
  let cacheDir: string;
  let builds: number;
  beforeEach(async () => {
    cacheDir = await mkdtemp(join(tmpdir(), 'cloche-templates-'));
    builds = 0;
  });
  afterEach(() => rm(cacheDir, { recursive: true }));

  const makeRoot: BuildOptions['makeRoot'] = async (root) => {
    builds++;
    await makeSmallRoot(root);
  };
  const ensure = (recipe: Recipe = RECIPE, options: Partial<BuildOptions> = {}) =>
    ensureTemplate(recipe, { cacheDir, makeRoot, ...options });

  it('publishes a version under the digest of its content, with its manifest beside the root', async () => {
    const version = await ensure(RECIPE, { now: () => new Date('2026-03-04T05:06:07Z') });
    const folder = join(cacheDir, 'templates', 'small', version.digest);
    assert.deepEqual((await readdir(folder)).sort(), ['manifest.json', 'recipe-digest', 'rootfs']);
    assert.deepEqual(JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')), version);
    assert.equal(version.id, `tplv_${version.digest.slice(0, 20)}`);
    assert.equal(version.version, `2026.03.04-${version.digest.slice(0, 8)}`);
    assert.equal(version.env?.A, '1');
    assert.deepEqual(version.packages.apt, { tool: '1.0' });
  });

  it('builds once for a recipe that stays', async () => {
    const first = await ensure();
    assert.deepEqual(await ensure({ ...RECIPE }), first);
    assert.equal(builds, 1);
  });

  it('keeps the old version beside the one of a changed recipe', async () => {
    const first = await ensure();
    const second = await ensure({ ...RECIPE, env: {} });
    assert.deepEqual(
      (await readdir(join(cacheDir, 'templates', 'small'))).sort(),
      [first.digest, second.digest].sort(),
    );
  });

  it('builds once when two ask at the same time', async () => {
    const [one, other] = await Promise.all([ensure(), ensure()]);
    assert.deepEqual(one, other);
    assert.equal(builds, 1);
  });

  it('publishes nothing of a build that fails, and builds again', async () => {
    const failing: BuildOptions['makeRoot'] = async (root) => {
      await makeSmallRoot(root);
      throw new Error('the network is gone');
    };
    await assert.rejects(ensure(RECIPE, { makeRoot: failing }), /the network is gone/);
    assert.equal(await findTemplate(RECIPE, cacheDir), undefined);
    await ensure();
    assert.equal(builds, 1);
  });

  it('takes what a killed build left for no template, and clears it away', async () => {
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

/** Makes only the files that the list of packages is read from. */
async function makeSmallRoot(root: string): Promise<void> {
  const admin = join(root, 'var/lib/dpkg');
  await mkdir(join(admin, 'info'), { recursive: true });
  await mkdir(join(admin, 'updates'));
  const fields = ['Package: tool', 'Status: install ok installed', 'Architecture: all', 'Version: 1.0'];
  await writeFile(join(admin, 'status'), `${fields.join('\n')}\nMaintainer: nobody\nDescription: a tool\n`);
}
