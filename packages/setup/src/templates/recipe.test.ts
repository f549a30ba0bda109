import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { RECIPES_FOLDER } from '../host/prepare-host.ts';
import { type Recipe, readRecipe, readRecipes, recipeDigest } from './recipe.ts';

const RECIPE: Recipe = {
  slug: 'small',
  description: 'A small one',
  languages: ['javascript'],
  from: 'debian:bookworm',
  packages: { apt: ['git'], pip: ['numpy==2.4.6'], npm: ['node@26.10.0'] },
  env: { A: '1', B: '2' },
  setup: [{ as: 'root', run: 'true' }],
};

describe('the digest of a recipe', () => {
  it('stays when keys come in another order', () => {
    const { slug, ...rest } = RECIPE;
    assert.equal(recipeDigest({ ...rest, env: { B: '2', A: '1' }, slug }), recipeDigest(RECIPE));
  });

  it('changes with anything that a build could turn out differently for', () => {
    const others = [
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

  async function write(name: string, recipe: unknown): Promise<string> {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'template.json'), JSON.stringify(recipe));
    return join(folder, name);
  }

  it('gives what the file says', async () => {
    assert.deepEqual(await readRecipe(await write('good', RECIPE)), RECIPE);
  });

  it('names the field that is wrong', async () => {
    const unpinned = { ...RECIPE, packages: { ...RECIPE.packages, pip: ['numpy'] } };
    await assert.rejects(readRecipe(await write('unpinned', unpinned)), /\/packages\/pip\/0/);
  });

  it('refuses fields that nobody reads', async () => {
    await assert.rejects(readRecipe(await write('unknown', { ...RECIPE, mirror: 'x' })), /mirror|additional/);
  });
});

describe('the curated recipes', () => {
  it('are python-node and node, each of its own folder’s name', async () => {
    const recipes = await readRecipes(RECIPES_FOLDER);
    assert.deepEqual(recipes.map(({ slug }) => slug).sort(), ['node', 'python-node']);
  });

  it('name packages and never hosts', async () => {
    for (const { slug } of await readRecipes(RECIPES_FOLDER)) {
      const text = await readFile(join(RECIPES_FOLDER, slug, 'template.json'), 'utf8');
      assert.doesNotMatch(text, /:\/\/|\.(com|org|net|io)\b/);
    }
  });
});
