/**
 * Regenerates the lock files of the templates: `npm run lock-templates`. Each names every package, direct or not, with
 * its version and the hashes of the builds for both architectures, but no registry. Needs npm and pip.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { npmProject } from '../packages/host/setup/src/templates/npm-packages.ts';
import { LOCK_FILES, type Recipe, readUnlockedRecipe } from '../packages/host/setup/src/templates/recipe.ts';

const TEMPLATES = join(import.meta.dirname, '../templates');
/** Python and C library of each Debian release, for which `pip` resolves packages on any host. */
const RELEASES: Readonly<Record<string, { python: string; glibcMinor: number }>> = {
  'debian:bookworm': { python: '3.11', glibcMinor: 36 },
};
const MACHINES = ['x86_64', 'aarch64'] as const;

interface Report {
  install: { metadata: { name: string; version: string }; download_info: { archive_info: { hashes: object } } }[];
}

for (const entry of readdirSync(TEMPLATES, { withFileTypes: true })) {
  if (!entry.isDirectory()) continue;
  const folder = join(TEMPLATES, entry.name);
  const recipe = await readUnlockedRecipe(folder);
  const scratch = mkdtempSync(join(tmpdir(), 'cloche-lock-'));
  try {
    if (recipe.packages.npm.length > 0) writeFileSync(join(folder, LOCK_FILES.npm), lockNpm(recipe, scratch));
    if (recipe.packages.pip.length > 0) writeFileSync(join(folder, LOCK_FILES.pip), lockPip(recipe, scratch));
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function lockNpm(recipe: Recipe, scratch: string): string {
  writeFileSync(join(scratch, 'package.json'), JSON.stringify(npmProject(recipe)));
  // Each package has its dependencies in its own folder, because only the folders of those named are moved.
  const options = [
    '--package-lock-only',
    '--install-strategy=nested',
    '--ignore-scripts',
    '--omit-lockfile-registry-resolved',
    '--no-audit',
  ];
  execFileSync('npm', ['install', ...options], { cwd: scratch, stdio: 'inherit' });
  const lock = JSON.parse(readFileSync(join(scratch, LOCK_FILES.npm), 'utf8'));
  delete lock.name;
  for (const entry of Object.values(lock.packages) as Record<string, unknown>[]) {
    for (const field of ['resolved', 'funding', 'engines', 'name']) delete entry[field];
  }
  return `${JSON.stringify(lock, null, 2)}\n`;
}

function lockPip({ from, packages }: Recipe, scratch: string): string {
  const { python, glibcMinor } = RELEASES[from] ?? {};
  if (python === undefined || glibcMinor === undefined)
    throw new Error(`${from} is not known here; add it to RELEASES.`);
  const hashes = new Map<string, Set<string>>();
  for (const machine of MACHINES) {
    const minors = Array.from({ length: glibcMinor - 4 }, (_, index) => glibcMinor - index);
    const tags = [...minors.map((minor) => `manylinux_2_${minor}`), 'manylinux2014', 'manylinux2010', 'manylinux1'];
    const report = join(scratch, 'report.json');
    const options = [
      ...['--quiet', '--dry-run', '--ignore-installed', '--only-binary=:all:', '--report', report, '--target', scratch],
      ...['--python-version', python, '--implementation', 'cp', '--abi', 'abi3', '--abi', 'none'],
      ...['--abi', `cp${python.replace('.', '')}`, ...tags.flatMap((tag) => ['--platform', `${tag}_${machine}`])],
    ];
    execFileSync('python3', ['-m', 'pip', 'install', ...options, ...packages.pip], { stdio: 'inherit' });
    const { install } = JSON.parse(readFileSync(report, 'utf8')) as Report;
    for (const { metadata, download_info: info } of install) {
      const requirement = `${metadata.name.toLowerCase().replace(/[-_.]+/g, '-')}==${metadata.version}`;
      const known = hashes.get(requirement) ?? new Set();
      for (const [kind, value] of Object.entries(info.archive_info.hashes)) known.add(`${kind}:${value}`);
      hashes.set(requirement, known);
    }
  }
  const lines = [...hashes].map(
    ([name, known]) =>
      `${name} ${[...known]
        .sort()
        .map((hash) => `--hash=${hash}`)
        .join(' ')}`,
  );
  return `${lines.sort().join('\n')}\n`;
}
