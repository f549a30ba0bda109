import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Recipe } from '../src/templates/recipe.ts';

export const SMALL_RECIPE: Recipe = {
  slug: 'small',
  description: 'A small one',
  languages: ['javascript'],
  from: 'debian:bookworm',
  packages: { apt: [], pip: [], npm: [] },
  env: { A: '1' },
  setup: [],
  locks: {},
};

/** Makes only the files that the list of packages is read from. */
export async function makeSmallRoot(root: string, toolVersion = '1.0'): Promise<void> {
  const admin = join(root, 'var/lib/dpkg');
  await mkdir(join(admin, 'info'), { recursive: true });
  await mkdir(join(admin, 'updates'));
  const fields = ['Package: tool', 'Status: install ok installed', 'Architecture: all', `Version: ${toolVersion}`];
  await writeFile(join(admin, 'status'), `${fields.join('\n')}\nMaintainer: nobody\nDescription: a tool\n`);
}
