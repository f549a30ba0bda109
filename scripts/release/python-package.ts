/** Builds the Python packages with hatchling, and checks what is in them. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { SDK_PYTHON } from '../python-sdk.ts';
import { ensurePythonTools, PYTHON } from '../python-tools.ts';
import { nextBreaking, releaseVersion } from './version.ts';

/** A wheel, or the archive of the sources. */
export interface PythonArchive {
  readonly file: string;
  readonly files: readonly string[];
  readonly bytes: number;
}

/** A package in Python, as it is in this repository. */
export interface PythonSource {
  readonly folder: string;
  /** Name of the module that programs import; also of the archives. */
  readonly module: string;
  /** Ends of the paths that an archive must have. */
  readonly required: readonly string[];
}

const SDK: PythonSource = {
  folder: SDK_PYTHON,
  module: 'cloche',
  required: ['py.typed', 'LICENSE', '_sync/cloche.py', '_generated/models.py'],
};
/** The SDK and the adapters. */
export const PYTHON_PACKAGES: readonly PythonSource[] = [
  SDK,
  adapter('deepagents', 'langchain_cloche', 'sandbox.py'),
  adapter('inspect', 'inspect_cloche', 'environment.py'),
];

function adapter(name: string, module: string, main: string): PythonSource {
  const folder = join(import.meta.dirname, '../../adapters', name);
  return { folder, module, required: ['py.typed', 'LICENSE', `${module}/${main}`] };
}

/**
 * Builds the wheel and the archive of the sources in `target`.
 * @throws an error if an archive lacks a part, or has a file that does not belong in it
 */
export function buildPythonPackage(target: string, source = SDK): { wheel: PythonArchive; sources: PythonArchive } {
  mkdirSync(target, { recursive: true });
  const cwd = releasedCopy(source);
  try {
    return buildArchives(cwd, resolve(target), source);
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

/** Copies what a package is built from. In the copy, the manifest of an adapter has the version of the release. */
function releasedCopy({ folder }: PythonSource): string {
  const copy = mkdtempSync(join(tmpdir(), 'cloche-python-package-'));
  for (const name of ['src', 'README.md', 'LICENSE', 'pyproject.toml']) {
    cpSync(join(folder, name), join(copy, name), { recursive: true, filter: (path) => !path.includes('__pycache__') });
  }
  const manifest = join(copy, 'pyproject.toml');
  const version = releaseVersion();
  const range = `cloche>=${version},<${nextBreaking(version)}`;
  const text = readFileSync(manifest, 'utf8').replace(/^version = "0"$/m, `version = "${version}"`);
  writeFileSync(manifest, text.replace(/^ {2}"cloche",$/m, `  "${range}",`));
  return copy;
}

function buildArchives(cwd: string, target: string, source: PythonSource) {
  // The same sources become the same bytes.
  const env = {
    PATH: process.env.PATH,
    PYTHONPATH: ensurePythonTools(CACHE_DIR),
    PYTHONDONTWRITEBYTECODE: '1',
    SOURCE_DATE_EPOCH: '1577836800',
  };
  const options = { cwd, env, encoding: 'utf8', stdio: 'pipe' } as const;
  execFileSync(PYTHON, ['-m', 'hatchling', 'build', '--directory', target], options);
  const version = releaseVersion();
  const listed = (suffix: string, allowed: RegExp) => {
    const file = join(target, `${source.module}-${version}${suffix}`);
    const program =
      'import sys, tarfile, zipfile; name = sys.argv[1]; ' +
      'print(*(tarfile.open(name).getnames() if name.endswith("gz") else zipfile.ZipFile(name).namelist()), sep="\\n")';
    const files = execFileSync(PYTHON, ['-c', program, file], options).trim().split('\n');
    const archive = { file, files, bytes: statSync(file).size };
    requireOnly(archive, allowed, source.required);
    return archive;
  };
  const code = `${source.module}/(.*\\.py|py\\.typed)`;
  const ofWheel = `(METADATA|WHEEL|RECORD|entry_points\\.txt|licenses/LICENSE)`;
  const ofSources = `(src/${code}|README\\.md|LICENSE|pyproject\\.toml|PKG-INFO|\\.gitignore)`;
  return {
    wheel: listed('-py3-none-any.whl', new RegExp(`^(${source.module}-[\\d.]+\\.dist-info/${ofWheel}|${code})$`)),
    sources: listed('.tar.gz', new RegExp(`^${source.module}-[\\d.]+/${ofSources}$`)),
  };
}

/** Builds the SDK and the adapters in Python. */
export function buildPythonPackages(target: string): PythonArchive[] {
  return PYTHON_PACKAGES.flatMap((source) => Object.values(buildPythonPackage(target, source)));
}

function requireOnly({ file, files }: PythonArchive, allowed: RegExp, required: readonly string[]): void {
  const foreign = files.filter((name) => !allowed.test(name));
  if (foreign.length > 0) throw new Error(`${file} has what does not belong in it: ${foreign.join(', ')}`);
  const missing = required.filter((part) => !files.some((name) => name.endsWith(part)));
  if (missing.length > 0) throw new Error(`${file} lacks ${missing.join(', ')}`);
}
