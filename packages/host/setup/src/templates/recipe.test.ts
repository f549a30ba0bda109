import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { npmProject } from './npm-packages.ts';
import { LOCK_FILES, RECIPES_FOLDER, type Recipe, readRecipe, readRecipes, recipeDigest } from './recipe.ts';

const RECIPE: Recipe = {
  slug: 'small',
  description: 'A small one',
  languages: ['javascript'],
  from: 'debian:bookworm',
  packages: { apt: ['git'], pip: ['numpy==2.4.6'], npm: ['node@26.10.0'] },
  env: { A: '1', B: '2' },
  setup: [{ as: 'root', run: 'true' }],
  locks: { pip: 'numpy==2.4.6 --hash=sha256:0\n', npm: '{}' },
};

describe('the digest of a recipe', () => {
  it('the digest of a recipe stays when keys come in another order', () => {
    const { slug, ...rest } = RECIPE;
    assert.equal(recipeDigest({ ...rest, env: { B: '2', A: '1' }, slug }), recipeDigest(RECIPE));
  });

  it('changes with anything that a build could turn out differently for', () => {
    const others = [
      { ...RECIPE, locks: { ...RECIPE.locks, npm: '{"changed":true}' } },
      { ...RECIPE, packages: { ...RECIPE.packages, apt: [] } },
      { ...RECIPE, env: { A: '1' } },
      { ...RECIPE, setup: [{ as: 'user' as const, run: 'true' }] },
      { ...RECIPE, description: 'Another' },
    ];
    const digests = [RECIPE, ...others].map((recipe) => recipeDigest(recipe));
    assert.equal(new Set([...digests, recipeDigest(RECIPE, 'riscv64')]).size, digests.length + 1);
  });
});

describe('reading a recipe', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-recipe-'));
  });
  after(() => rm(folder, { recursive: true }));

  async function write(name: string, { locks, ...recipe }: Recipe): Promise<string> {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'template.json'), JSON.stringify(recipe));
    for (const source of ['pip', 'npm'] as const) {
      if (locks[source] !== undefined) await writeFile(join(folder, name, LOCK_FILES[source]), locks[source]);
    }
    return join(folder, name);
  }

  it('reading a recipe gives what the file says', async () => {
    assert.deepEqual(await readRecipe(await write('good', RECIPE)), RECIPE);
  });

  it('reading a recipe names the field that is wrong', async () => {
    const unpinned = { ...RECIPE, packages: { ...RECIPE.packages, pip: ['numpy'] } };
    await assert.rejects(readRecipe(await write('unpinned', unpinned)), /\/packages\/pip\/0/);
  });

  it('reading a recipe refuses unknown fields', async () => {
    const unknown = { ...RECIPE, mirror: 'x' } as Recipe;
    await assert.rejects(readRecipe(await write('unknown', unknown)), /mirror|additional/);
  });

  it('reading a recipe says how to make a lock file that is missing', async () => {
    const unlocked = { ...RECIPE, locks: { npm: '{}' } };
    await assert.rejects(readRecipe(await write('unlocked', unlocked)), /requirements\.txt is missing.*lock-templates/);
  });
});

describe('the curated recipes', () => {
  it('the curated recipes are python-node and node, each of its own folder’s name', async () => {
    const recipes = await readRecipes(RECIPES_FOLDER);
    assert.deepEqual(recipes.map(({ slug }) => slug).sort(), ['node', 'python-node']);
  });

  it('the curated recipes name packages and never hosts', async () => {
    for (const { slug } of await readRecipes(RECIPES_FOLDER)) {
      const text = await readFile(join(RECIPES_FOLDER, slug, 'template.json'), 'utf8');
      assert.doesNotMatch(text, /:\/\/|\.(com|org|net|io)\b/);
      for (const name of await readdir(join(RECIPES_FOLDER, slug))) {
        assert.doesNotMatch(await readFile(join(RECIPES_FOLDER, slug, name), 'utf8'), /:\/\//, name);
      }
    }
  });

  it('the curated recipes pin every package by a hash, in lock files that were made from them', async () => {
    for (const { packages, locks, slug, ...recipe } of await readRecipes(RECIPES_FOLDER)) {
      const requirements = (locks.pip ?? '').split('\n').filter(Boolean);
      for (const line of requirements) assert.match(line, /^[a-z0-9-]+==\S+( --hash=sha256:[0-9a-f]{64})+$/);
      const pinned = requirements.map((line) => line.split(' ')[0]);
      for (const name of packages.pip) assert.ok(pinned.includes(name.toLowerCase()), `${slug}: ${name}`);
      const lock = JSON.parse(locks.npm ?? '{}').packages as Record<string, Record<string, unknown>>;
      const { dependencies, optionalDependencies } = npmProject({ ...recipe, packages, locks, slug });
      assert.deepEqual(lock[''], { dependencies, optionalDependencies });
      const loose = Object.entries(lock).filter(([name, entry]) => name !== '' && !entry.integrity && !entry.inBundle);
      assert.deepEqual(loose, []);
    }
  });
});
