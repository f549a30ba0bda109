import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import type { BuiltPackage } from './package-folder.ts';
import type { Tarball } from './tarball.ts';

const run = promisify(execFile);
const NEEDED = ['package.json', 'README.md', 'LICENSE', 'THIRD-PARTY-NOTICES.txt'];
/** Every other file of a package is one of these. */
const BUILT = /^(?:bin\/[\w-]+\.js|dist\/[\w/-]+\.js|types\/[\w/-]+\.d\.ts)$/;

/**
 * @throws an error that lists what is wrong with a package, by its contents and by the rules of the registry's tools
 */
export async function checkPackage(built: BuiltPackage, { file, files }: Tarball): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(built.folder, 'package.json'), 'utf8'));
  const problems = [
    ...NEEDED.filter((name) => !files.includes(name)).map((name) => `${name} is missing`),
    ...files
      .filter((name) => !NEEDED.includes(name) && !BUILT.test(name))
      .map((name) => `${name} does not belong in it`),
    ...files.flatMap((name) => foreignText(built, name)),
    ...['devDependencies', 'scripts', 'private']
      .filter((field) => field in manifest)
      .map((field) => `package.json has ${field}`),
    ...problemsOfImports(built, files, manifest),
    ...(await problemsOfManifest(file)),
    ...(manifest.exports?.['.'] ? await problemsOfTypes(file) : []),
  ];
  if (problems.length > 0) throw new Error(`${built.name} must not be released:\n  ${problems.join('\n  ')}`);
}

/**
 * Returns what a file imports that its package neither contains nor may import, and where it names a folder of this
 * machine.
 */
function foreignText({ name: own, folder, imports = [] }: BuiltPackage, name: string): string[] {
  const found = readFileSync(join(folder, name), 'utf8').includes(resolve('.'))
    ? [`${name} names the folder it was built in`]
    : [];
  const foreign = importsOf(folder, name).filter((path) => path !== own && !imports.includes(packageOf(path)));
  return [...found, ...foreign.map((path) => `${name} imports ${path}`)];
}

/** Returns where the manifest and the files disagree about the packages that npm installs beside this one. */
function problemsOfImports(
  { folder, imports = [] }: BuiltPackage,
  files: readonly string[],
  manifest: Readonly<Record<string, Readonly<Record<string, string>> | undefined>>,
): string[] {
  const fields = ['dependencies', 'peerDependencies'];
  const declared = fields.flatMap((field) => Object.keys(manifest[field] ?? {}).map((name) => ({ field, name })));
  const built = files.filter((name) => name.endsWith('.js'));
  const imported = built.flatMap((name) => importsOf(folder, name).map(packageOf));
  return [
    ...declared
      .filter(({ name }) => !imports.includes(name))
      .map(({ field, name }) => `package.json has ${field}: ${name}`),
    ...imports
      .filter((name) => !declared.some((each) => each.name === name))
      .map((name) => `package.json does not declare ${name}`),
    // A package that was bundled is not imported.
    ...imports.filter((name) => !imported.includes(name)).map((name) => `no file imports ${name}`),
  ];
}

/** Returns the specifiers of other packages in a JavaScript file or its types. */
function importsOf(folder: string, name: string): string[] {
  if (!/\.(?:js|ts)$/.test(name)) return [];
  const text = readFileSync(join(folder, name), 'utf8');
  const imported = [
    ...text.matchAll(/^(?:import|export)\b[^'"]*?from\s*["']([^'"]+)["']|\bimport\(["']([^'"]+)["']\)/gm),
  ];
  return imported
    .map(([, fixed, lazy]) => fixed ?? lazy ?? '')
    .filter((path) => !/^(?:\.|#|node:)/.test(path) && /^[@\w]/.test(path));
}

/** Returns the package that a specifier names: `@scope/name` for `@scope/name/part`. */
function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

async function problemsOfManifest(tarball: string): Promise<string[]> {
  const bytes = readFileSync(tarball);
  const content = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const { messages, pkg } = await publint({ strict: true, pack: { tarball: content } });
  return messages.map((message) => `publint: ${formatMessage(message, pkg, { color: false })}`);
}

/** Resolves the types as programs do: in Node (`nodenext`) and with a bundler. */
async function problemsOfTypes(tarball: string): Promise<string[]> {
  try {
    await run('node_modules/.bin/attw', [
      tarball,
      '--profile',
      'esm-only',
      '--format',
      'ascii',
      '--no-color',
      '--no-emoji',
    ]);
    return [];
  } catch (error) {
    return [`attw: ${(error as { stdout?: string }).stdout}`];
  }
}

/** Returns the size in bytes of a module with everything that it imports in a page, minified. */
export async function minifiedBytes(entry: string): Promise<number> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    write: false,
    // Modules of the package without effects import each other only for these.
    logLevel: 'error',
  });
  return outputFiles.reduce((bytes, { contents }) => bytes + contents.length, 0);
}
