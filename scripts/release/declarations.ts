/**
 * Builds type declarations, one file for each module that is reached: of adapters, and of the SDK with the contract's
 * types.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { contractTypes } from './contract-types.ts';

const SDK = resolve('packages/clients/sdk/src');
/** Makes the types of `await using` available whatever `lib` the importing program has. */
const LIB = '/// <reference lib="esnext.disposable" />\n';

/**
 * Writes the declarations below `target`, with those of each entry at its root. Returns the names of the contract that
 * they use.
 */
export function buildDeclarations(entries: readonly string[], target: string): string[] {
  const emitted = mkdtempSync(join(tmpdir(), 'cloche-declarations-'));
  try {
    emit(SDK, entries, emitted);
    const names = new Set<string>();
    for (const file of reachable(entries.map((entry) => join(emitted, declarationOf(entry))))) {
      const isEntry = entries.map(declarationOf).includes(relative(emitted, file));
      const output = join(target, relative(emitted, file));
      const contract = relativeModule(dirname(output), join(target, 'contract.js'));
      const text = readFileSync(file, 'utf8');
      for (const name of namesOfContract(text)) names.add(name);
      mkdirSync(dirname(output), { recursive: true });
      const rewritten = asBuilt(text.replaceAll(/@cloche\/contract(\/client)?/g, contract));
      writeFileSync(output, isEntry ? `${LIB}${rewritten}` : rewritten);
    }
    writeFileSync(join(target, 'contract.d.ts'), formatted(contractTypes([...names])));
    return [...names].sort();
  } finally {
    rmSync(emitted, { recursive: true });
  }
}

/** Writes the declarations of a module and of all that it imports in its folder. */
export function buildPlainDeclarations(folder: string, entry: string, target: string): void {
  const emitted = mkdtempSync(join(tmpdir(), 'cloche-declarations-'));
  try {
    emit(folder, [entry], emitted);
    mkdirSync(target, { recursive: true });
    for (const file of reachable([join(emitted, declarationOf(entry))]))
      writeFileSync(join(target, relative(emitted, file)), asBuilt(readFileSync(file, 'utf8')));
  } finally {
    rmSync(emitted, { recursive: true });
  }
}

/** Imports of TypeScript files become those of the files that are built of them. */
function asBuilt(text: string): string {
  return text.replace(/(['"])(\.[^'"]*)\.ts\1/g, "'$2.js'");
}

function declarationOf(entry: string): string {
  return entry.replace(/\.ts$/, '.d.ts');
}

/** Emits declarations without checking the sources, which `npm test` does; checking takes half of the time. */
function emit(rootDir: string, entries: readonly string[], outDir: string): void {
  const options = { noEmit: false, declaration: true, emitDeclarationOnly: true, noCheck: true, stripInternal: true };
  const typeRoots = [resolve('node_modules/@types')];
  const files = entries.map((entry) => join(rootDir, entry));
  compile({ ...options, typeRoots, rootDir, outDir }, files, outDir);
}

/** Runs the compiler with the repository's options and those given. @throws if it reports anything */
export function compile(compilerOptions: object, files: readonly string[], folder: string): void {
  const config = join(folder, 'tsconfig.json');
  writeFileSync(config, JSON.stringify({ extends: resolve('tsconfig.json'), compilerOptions, include: [], files }));
  try {
    execFileSync(resolve('node_modules/.bin/tsc'), ['-p', config], { encoding: 'utf8' });
  } catch (error) {
    throw new Error(`The compiler refuses the declarations:\n${(error as { stdout?: string }).stdout}`);
  }
}

/** Returns the files that the entries reach by relative imports. */
function reachable(entries: readonly string[]): string[] {
  const found = new Set(entries);
  for (const file of found) {
    for (const [, , path = ''] of readFileSync(file, 'utf8').matchAll(/(['"])(\.[^'"]*)\.ts\1/g)) {
      const other = join(dirname(file), `${path}.d.ts`);
      if (existsSync(other)) found.add(other);
    }
  }
  return [...found];
}

function namesOfContract(text: string): string[] {
  const lists = [...text.matchAll(/(?:import|export)[^;]*?\{([^}]*)\}\s*from '@cloche\/contract(?:\/client)?'/g)];
  const listed = lists.flatMap(([, list = '']) =>
    list.split(',').map((each) => each.replace(/\btype\b|\bas\b.*/g, '').trim()),
  );
  const inline = [...text.matchAll(/import\("@cloche\/contract(?:\/client)?"\)\.(\w+)/g)].map(([, name = '']) => name);
  return [...listed, ...inline].filter(Boolean);
}

function relativeModule(from: string, to: string): string {
  const path = relative(from, to);
  return path.startsWith('.') ? path : `./${path}`;
}

function formatted(text: string): string {
  const biome = resolve('node_modules/.bin/biome');
  return execFileSync(biome, ['format', '--stdin-file-path=contract.ts'], { input: text, encoding: 'utf8' });
}
