/** What the documents say about the packages of the template `python-node`. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { RECIPES_FOLDER, readRecipe } from './recipe.ts';

const DOCS = join(RECIPES_FOLDER, '../docs');
const GUIDE = join(DOCS, 'guides/code.md');

/** Returns the words in code marks of a section's list, which is its first paragraph. */
function listedIn(guide: string, section: string): string[] {
  const [, paragraph = ''] = guide.split(`## ${section}\n\n`);
  const [list = ''] = paragraph.split('\n\n');
  return [...list.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
}

const nameOf = (pinned: string) => pinned.replace(/(==|(?<=.)@).*$/, '');

describe('the packages of python-node', async () => {
  const { packages } = await readRecipe(join(RECIPES_FOLDER, 'python-node'));
  const guide = await readFile(GUIDE, 'utf8');

  it('the packages of python-node are listed in the guide', () => {
    assert.deepEqual(listedIn(guide, 'Python packages').sort(), packages.pip.map(nameOf).sort());
    assert.deepEqual(listedIn(guide, 'Packages for Node.js').sort(), packages.npm.map(nameOf).sort());
  });

  it('the packages of python-node have a reason each', async () => {
    const lines = (await readFile(join(DOCS, 'templates/packages.txt'), 'utf8')).split('\n');
    const reasons = lines.filter((line) => line !== '' && !line.startsWith('#')).map((line) => line.split(/ {2,}/));
    assert.deepEqual(reasons.map(([name]) => name).sort(), packages.pip.map(nameOf).sort());
    for (const [name, reason] of reasons) assert.ok(reason, `${name} has no reason`);
  });
});
