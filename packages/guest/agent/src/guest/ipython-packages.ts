import { cpSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** IPython and its dependencies, by the names of their `.dist-info` folders. All are pure Python. */
const DISTRIBUTIONS = [
  ...['ipython', 'asttokens', 'executing', 'ipython_pygments_lexers', 'jedi', 'matplotlib_inline', 'parso', 'pexpect'],
  ...[
    'prompt_toolkit',
    'ptyprocess',
    'pure_eval',
    'pygments',
    'stack_data',
    'traitlets',
    'typing_extensions',
    'wcwidth',
  ],
];
/** Folder of the pip packages in a version of the template `python-node`. */
const WHEELS = 'templates/python-node/*/rootfs/usr/local/lib/python3*/dist-packages';

/** IPython and its dependencies in a built template. */
export interface IpythonPackages {
  /** Paths of the `.dist-info` folders, whose names contain the versions. */
  readonly metadata: readonly string[];
}

/** Finds the newest IPython of the templates in the cache, with what it imports; undefined if no template has all. */
export function findIpython(cacheDir: string): IpythonPackages | undefined {
  const complete = globSync(WHEELS, { cwd: cacheDir })
    .map((folder) => metadataIn(join(cacheDir, folder)))
    .filter((metadata) => metadata.length === DISTRIBUTIONS.length);
  const byVersion = (one: string[], other: string[]) =>
    namesOf(one).localeCompare(namesOf(other), 'en', { numeric: true });
  const newest = complete.sort(byVersion).at(-1);
  return newest && { metadata: newest };
}

/** Returns names and versions of the packages, in one text. The lock file of the template fixes what they contain. */
export function describeIpython(packages: IpythonPackages | undefined): string {
  return packages === undefined ? 'absent' : namesOf(packages.metadata);
}

/** Copies the Python code of the packages, and their metadata. */
export function copyIpython({ metadata }: IpythonPackages, target: string): void {
  for (const folder of metadata) {
    for (const file of filesOf(folder)) {
      mkdirSync(dirname(join(target, file)), { recursive: true });
      cpSync(join(dirname(folder), file), join(target, file));
    }
  }
}

function metadataIn(folder: string): string[] {
  const entries = readdirSync(folder).filter((entry) => entry.endsWith('.dist-info'));
  const found = DISTRIBUTIONS.flatMap((name) => entries.find((entry) => entry.startsWith(`${name}-`)) ?? []);
  return found.map((entry) => join(folder, entry));
}

function namesOf(metadata: readonly string[]): string {
  return metadata.map((folder) => basename(folder)).join(' ');
}

/** Files that are not copied: bytecode, which fits one version of Python, tests, and jedi's 5,000 type stubs. */
const LEFT_OUT = /^\.\.|\.(pyc|so)$|(^|\/)tests?\/|\/third_party\/(django-stubs|typeshed\/stubs)\//;

/** Returns the files that a wheel has installed, without programs, manuals and tests. */
function filesOf(metadata: string): string[] {
  const lines = readFileSync(join(metadata, 'RECORD'), 'utf8').split('\n');
  return lines
    .map((line) => line.split(',')[0] ?? '')
    .filter((file) => file !== '' && !LEFT_OUT.test(file))
    .filter((file) => existsSync(join(dirname(metadata), file)));
}
