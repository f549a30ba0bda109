import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { SOURCES } from './build-guest.ts';

const PACKAGES = join(import.meta.dirname, '../../../..');

const FOLDERS = new Map(
  globSync('*/*/package.json', { cwd: PACKAGES }).map((file) => {
    return [JSON.parse(readFileSync(join(PACKAGES, file), 'utf8')).name as string, dirname(file)];
  }),
);

/** Returns the folders of a package and of all that it depends on in this repository. */
function withDependencies(folder: string, found = new Set<string>()): Set<string> {
  if (found.has(folder)) return found;
  found.add(folder);
  const { dependencies = {} } = JSON.parse(readFileSync(join(PACKAGES, folder, 'package.json'), 'utf8'));
  const names = Object.keys(dependencies).filter((name) => name.startsWith('@cloche/'));
  for (const name of names) withDependencies(FOLDERS.get(name) ?? name, found);
  return found;
}

it('the guest is built anew when a package changes that the agent depends on', () => {
  const missing = [...withDependencies('guest/agent')].filter((folder) => !SOURCES.includes(`${folder}/src`));
  assert.deepEqual(missing, []);
});
