import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import type { BuiltPackage } from './package-folder.ts';

export interface Tarball {
  readonly file: string;
  /** Paths of its files. */
  readonly files: readonly string[];
  readonly bytes: number;
}

/** Packs the folder of a package as npm would publish it. */
export function packTarball({ name, folder }: BuiltPackage, target: string): Tarball {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', resolve(target)];
  // The variables of a surrounding `npm run` would apply its settings to this package.
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^npm_/i.test(key)));
  const output: unknown = JSON.parse(execFileSync('npm', args, { cwd: folder, env, encoding: 'utf8' }));
  const listed = Array.isArray(output) ? output : Object.values(output as object);
  const [packed] = listed as { filename: string; size: number; files: { path: string }[] }[];
  if (!packed) throw new Error(`npm packed nothing of ${name}.`);
  return { file: join(target, packed.filename), files: packed.files.map(({ path }) => path), bytes: packed.size };
}
