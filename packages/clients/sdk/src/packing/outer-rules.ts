import { existsSync } from 'node:fs';
import { posix } from 'node:path';
import { IgnoreRules } from './ignore-rules.ts';
import { joined, pathIn, readIgnoreFile } from './packed-path.ts';

/** Rules of the folders above a directory, and the directory's path from the topmost of them. */
export interface OuterRules {
  readonly rules: IgnoreRules;
  readonly prefix: string;
}

/**
 * Returns the rules of the Git repository that `directory` is a folder of, as `git status` there follows them. Without
 * a repository, or for a directory that the repository ignores, there are none.
 */
export function outerRules(directory: Buffer): OuterRules {
  const path = directory.toString('latin1');
  const top = repositoryOf(path);
  const prefix = top === undefined ? '' : posix.relative(top, path);
  const parts = prefix.split('/').filter(Boolean);
  let rules = IgnoreRules.none;
  for (const [index, part] of parts.entries()) {
    const folder = parts.slice(0, index).join('/');
    const at = (name: string) => readIgnoreFile(pathIn(Buffer.from(top ?? '', 'latin1'), joined(folder, name)));
    rules = rules.within(folder, { gitignore: at('.gitignore'), clocheignore: at('.clocheignore') });
    if (rules.leavesOut(joined(folder, part), true)) return { rules: IgnoreRules.none, prefix: '' };
  }
  return { rules, prefix };
}

/** Returns the folder at or above `path` that has a `.git`. */
function repositoryOf(path: string): string | undefined {
  for (let folder = path; ; folder = posix.dirname(folder)) {
    if (existsSync(Buffer.from(posix.join(folder, '.git'), 'latin1'))) return folder;
    if (folder === '/') return undefined;
  }
}
