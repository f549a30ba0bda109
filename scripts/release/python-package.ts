/** Builds the Python package `cloche` with hatchling, and checks what is in it. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE_DIR, findPythonPackages } from '../../packages/agent/src/testing/test-cache.ts';
import { SDK_PYTHON } from '../python-sdk.ts';
import { ensurePythonTools, PYTHON } from '../python-tools.ts';

/** A wheel, or the archive of the sources. */
export interface PythonArchive {
  readonly file: string;
  readonly files: readonly string[];
  readonly bytes: number;
}

const IN_SOURCES =
  /^cloche-[\d.]+\/(src\/cloche\/.*\.py|src\/cloche\/py\.typed|README\.md|LICENSE|pyproject\.toml|PKG-INFO|\.gitignore)$/;
const IN_WHEEL = /^cloche(-[\d.]+\.dist-info\/(METADATA|WHEEL|RECORD|licenses\/LICENSE)|\/.*\.py|\/py\.typed)$/;
const REQUIRED = ['py.typed', 'LICENSE', '_sync/cloche.py', '_generated/models.py'];

/**
 * Builds the wheel and the archive of the sources in `target`.
 * @throws an error if an archive lacks a part, or has a file that does not belong in it; without a built template, whose
 * pip installs hatchling
 */
export function buildPythonPackage(target: string): { wheel: PythonArchive; sources: PythonArchive } {
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
  const options = { cwd: SDK_PYTHON, env, encoding: 'utf8' } as const;
  execFileSync(PYTHON, ['-m', 'hatchling', 'build', '--directory', target], { ...options, stdio: 'pipe' });
  const listed = (suffix: string) => {
    const file = join(target, `cloche-${versionOf()}${suffix}`);
    const program =
      'import sys, tarfile, zipfile; name = sys.argv[1]; ' +
      'print(*(tarfile.open(name).getnames() if name.endswith("gz") else zipfile.ZipFile(name).namelist()), sep="\\n")';
    const files = execFileSync(PYTHON, ['-c', program, file], options).trim().split('\n');
    return { file, files, bytes: statSync(file).size };
  };
  const wheel = listed('-py3-none-any.whl');
  const sources = listed('.tar.gz');
  requireOnly(wheel, IN_WHEEL);
  requireOnly(sources, IN_SOURCES);
  return { wheel, sources };
}

function versionOf(): string {
  const [, version = ''] =
    /VERSION = "(.+)"/.exec(readFileSync(join(SDK_PYTHON, 'src/cloche/_core/version.py'), 'utf8')) ?? [];
  return version;
}

function requireOnly({ file, files }: PythonArchive, allowed: RegExp): void {
  const foreign = files.filter((name) => !allowed.test(name));
  if (foreign.length > 0) throw new Error(`${file} has what does not belong in it: ${foreign.join(', ')}`);
  const missing = REQUIRED.filter((part) => !files.some((name) => name.endsWith(part)));
  if (missing.length > 0) throw new Error(`${file} lacks ${missing.join(', ')}`);
}
