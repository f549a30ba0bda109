import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { GUEST_SOURCES } from '../../packages/guest/agent/src/guest/build-guest.ts';
import { RECIPES_FOLDER } from '../../packages/host/setup/src/index.ts';
import { runNpm } from './npm.ts';
import { type ProductionPackage, productionPackages } from './production-packages.ts';
import { programText } from './program.ts';

/** Architectures by Node's name, with Debian's name of each. */
export const ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' } as const;
export type Architecture = keyof typeof ARCHITECTURES;

/** A folder with all files of the service for one architecture. A package installs it as `/opt/cloche`. */
export interface Tree extends Disposable {
  readonly architecture: Architecture;
  readonly folder: string;
}

/** Built by the installation of dependencies, and in no commit. */
const BUILT = ['packages/shared/typebox/build', 'packages/shared/kysely/build'];
const OF_TESTS = /\.test\.ts$|\/(testing|tests?)\//;
/** Files of dependencies that no program reads. */
const UNREAD = /\.map$|\.d\.[cm]?ts$|^node-linux-\w+\/(include|share|CHANGELOG\.md)/;

/** Returns the time of the commit, in seconds, which all files of a release have. */
export function releaseTime(): number {
  const given = process.env.SOURCE_DATE_EPOCH;
  return Number(given ?? execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8' }));
}

/**
 * Makes the tree of an architecture: the packages that a machine needs without their tests, the recipes of templates, and
 * the dependencies that the lock file names. Runs no script of a dependency, so any machine can make any tree. The same
 * commit gives the same bytes.
 */
export function buildTree(architecture: Architecture, version: string): Tree {
  const parent = mkdtempSync(join(tmpdir(), 'cloche-release-'));
  using building = new DisposableStack();
  building.defer(() => rmSync(parent, { recursive: true }));
  const folder = join(parent, 'cloche');
  mkdirSync(folder);
  const packages = productionPackages();
  installDependencies(folder, architecture, packages);
  const kept = [...packages.map(({ location }) => location), ...GUEST_SOURCES, RECIPES_FOLDER, 'LICENSE'];
  const files = sourceFiles(kept.map((path) => relative('', path)));
  copyFiles(folder, [...files.filter((file) => !isOfAnother(architecture, file)), 'package-lock.json']);
  for (const built of BUILT) cpSync(built, join(folder, built), { recursive: true });
  writeManifests(folder, packages, version);
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/cloche'), programText(), { mode: 0o755 });
  normalise(parent);
  const built = building.move();
  return { architecture, folder, [Symbol.dispose]: () => built.dispose() };
}

/** Copies a tree as hard links. */
export function linkTree({ folder }: Tree, target: string): void {
  execFileSync('cp', ['--archive', '--link', folder, target]);
}

/** Returns the files below paths of this repository that a machine needs. */
export function sourceFiles(paths: readonly string[]): string[] {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...paths];
  const files = execFileSync('git', args, { encoding: 'utf8' }).split('\0').filter(Boolean);
  return [...new Set(files)].filter((file) => !OF_TESTS.test(file)).sort();
}

/** Whether a file is a program of another processor. */
function isOfAnother(architecture: Architecture, file: string): boolean {
  const [, processor] = /\/static-programs\/([^/]+)\//.exec(file) ?? [];
  return processor !== undefined && processor !== architecture;
}

function installDependencies(folder: string, architecture: Architecture, packages: readonly ProductionPackage[]): void {
  // npm compares the lock file with all manifests.
  const manifests = execFileSync('git', ['ls-files', '*package.json', 'package-lock.json', '.npmrc'], {
    encoding: 'utf8',
  });
  copyFiles(folder, manifests.trim().split('\n'));
  const target = ['--os=linux', `--cpu=${architecture}`, '--libc=glibc'];
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
  const chosen = ['--include-workspace-root', ...packages.map(({ name }) => `--workspace=${name}`)];
  runNpm(folder, 'ci', '--omit=dev', '--ignore-scripts', ...target, ...quiet, ...chosen);
  for (const name of readdirSync(folder)) if (name !== 'node_modules') rmSync(join(folder, name), { recursive: true });
  const modules = join(folder, 'node_modules');
  // npm links all packages of the repository.
  const scope = join(modules, '@cloche');
  for (const name of readdirSync(scope)) {
    if (!packages.some((each) => each.name === `@cloche/${name}`)) rmSync(join(scope, name));
  }
  for (const { path } of entriesOf(modules)) {
    if (UNREAD.test(relative(modules, path))) rmSync(path, { recursive: true, force: true });
  }
}

/** Writes the manifests without what only development needs. */
function writeManifests(folder: string, packages: readonly ProductionPackage[], version: string): void {
  const workspaces = packages.map(({ location }) => location);
  const write = (location: string, changes: object) => {
    const file = join(location, 'package.json');
    const { devDependencies: _, scripts: __, ...manifest } = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(join(folder, file), `${JSON.stringify({ version, ...manifest, ...changes }, null, 2)}\n`);
  };
  write('.', { name: 'cloche', version, workspaces });
  for (const location of workspaces) write(location, {});
}

function copyFiles(folder: string, files: readonly string[]): void {
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(file, join(folder, file));
  }
}

/** Gives a folder and all in it the time of the release, and modes that depend on no umask. */
export function normalise(folder: string): void {
  const time = releaseTime();
  for (const { path, isLink, isFolder } of [...entriesOf(folder), { path: folder, isLink: false, isFolder: true }]) {
    if (!isLink) chmodSync(path, isFolder || (statSync(path).mode & 0o111) !== 0 ? 0o755 : 0o644);
    lutimesSync(path, time, time);
  }
}

/** Returns everything below a folder, each folder after its content. */
function entriesOf(folder: string): { path: string; isLink: boolean; isFolder: boolean }[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    const isFolder = entry.isDirectory();
    return [...(isFolder ? entriesOf(path) : []), { path, isLink: entry.isSymbolicLink(), isFolder }];
  });
}
