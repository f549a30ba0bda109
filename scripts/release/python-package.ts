/** Builds the Python packages with hatchling, and checks what is in them. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE_DIR, findPythonPackages } from '../../packages/guest/agent/src/testing/test-cache.ts';
import { SDK_PYTHON } from '../python-sdk.ts';
import { ensurePythonTools, PYTHON } from '../python-tools.ts';

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
const ADAPTERS: readonly PythonSource[] = [
  adapter('deepagents', 'langchain_cloche', 'sandbox.py'),
  adapter('inspect', 'inspect_cloche', 'environment.py'),
];

function adapter(name: string, module: string, main: string): PythonSource {
  const folder = join(import.meta.dirname, '../../adapters', name);
  return { folder, module, required: ['py.typed', 'LICENSE', `${module}/${main}`] };
}

/**
 * Builds the wheel and the archive of the sources in `target`.
 * @throws an error if an archive lacks a part, or has a file that does not belong in it; without a built template,
 * whose pip installs hatchling
 */
export function buildPythonPackage(target: string, source = SDK): { wheel: PythonArchive; sources: PythonArchive } {
  const packages = findPythonPackages();
  if (packages === undefined) throw new Error('No python-node template is built: run `npm test -- prepare`.');
  mkdirSync(target, { recursive: true });
  // The same sources become the same bytes.
  const env = {
    PATH: process.env.PATH,
    PYTHONPATH: ensurePythonTools(CACHE_DIR, packages),
    PYTHONDONTWRITEBYTECODE: '1',
    SOURCE_DATE_EPOCH: '1577836800',
  };
  const options = { cwd: source.folder, env, encoding: 'utf8', stdio: 'pipe' } as const;
  const version = execFileSync(PYTHON, ['-m', 'hatchling', 'version'], options).trim();
  execFileSync(PYTHON, ['-m', 'hatchling', 'build', '--directory', target], options);
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
  return [SDK, ...ADAPTERS].flatMap((source) => Object.values(buildPythonPackage(target, source)));
}

function requireOnly({ file, files }: PythonArchive, allowed: RegExp, required: readonly string[]): void {
  const foreign = files.filter((name) => !allowed.test(name));
  if (foreign.length > 0) throw new Error(`${file} has what does not belong in it: ${foreign.join(', ')}`);
  const missing = required.filter((part) => !files.some((name) => name.endsWith(part)));
  if (missing.length > 0) throw new Error(`${file} lacks ${missing.join(', ')}`);
}
