import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const FILES_OF_A_GROUP = 16;

/**
 * Writes files into `folder` that each run some of the test files of one package in one process, which loads the
 * modules that these share only once. Returns their paths. In a group each test file is a suite: its hooks run for its
 * own tests, and the files run one after the other. A grouped file must not use `await` outside of functions.
 */
export function groupTests(files: readonly string[], folder: string): string[] {
  const groups = [...Map.groupBy(files, packageOf).values()].flatMap(groupsOf);
  return groups.map((group, index) => {
    const path = join(folder, `group-${index + 1}.test.mjs`);
    writeFileSync(path, programOf(group));
    return path;
  });
}

function packageOf(file: string): string {
  return file.match(/^packages\/[^/]+\/[^/]+/)?.[0] ?? '';
}

/** Neighbours take similar times, so each joins another group. */
function groupsOf(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / FILES_OF_A_GROUP);
  return Array.from({ length: count }, (_, group) => files.filter((_file, index) => index % count === group));
}

/**
 * Loads files with `require`: a hook belongs to a suite only if it is registered before the suite's function returns.
 */
function programOf(files: readonly string[]): string {
  return [
    "import { createRequire } from 'node:module';",
    "import { describe } from 'node:test';",
    'const require = createRequire(import.meta.url);',
    ...files.map((file) => {
      const [name, path] = [file, resolve(file)].map((each) => JSON.stringify(each));
      return `describe(${name}, () => void require(${path}));`;
    }),
    '',
  ].join('\n');
}
