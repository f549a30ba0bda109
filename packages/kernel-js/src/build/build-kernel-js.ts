import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buildSync } from 'esbuild';
import { kernelJsFlags } from './kernel-js-flags.ts';

const run = promisify(execFile);

const sourceDir = dirname(dirname(fileURLToPath(import.meta.url)));

/** User code shares the main thread's globals and may replace them: the kernel goes on with those it started with. */
const ownGlobals = `"use strict";const {${[
  ...['Array', 'ArrayBuffer', 'Atomics', 'Buffer', 'Error', 'Int32Array', 'JSON', 'Map', 'Number', 'Object', 'Promise'],
  ...['Reflect', 'Set', 'SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'Uint8Array', 'URL'],
  ...['process', 'setImmediate', 'setTimeout'],
]}} = globalThis;`;

/**
 * Writes the kernel into `outDir` (made if it is missing): `main.cjs`, which is what Node is started with, the worker
 * that holds its protocol, the compiler that this loads and what V8 makes of it, the TypeScript transformer's native
 * library for this machine's architecture (glibc), and in `bin/` the program that lowers decorators. `node` is the Node
 * that will run it. Repeating it overwrites the same files.
 */
export async function buildKernelJs(outDir: string, node: string): Promise<void> {
  const decoratorCompiler = join(outDir, 'bin/esbuild');
  await mkdir(dirname(decoratorCompiler), { recursive: true });
  // Synchronously: the other way leaves esbuild's process running for as long as ours does.
  buildSync({
    entryPoints: {
      main: join(sourceDir, 'main/main.ts'),
      worker: join(sourceDir, 'worker/worker.ts'),
      compiler: join(sourceDir, 'compile/compile-cell.ts'),
    },
    outdir: outDir,
    outExtension: { '.js': '.cjs' },
    banner: { js: ownGlobals },
    bundle: true,
    // As a module each of them would have all of what Node's own modules export looked at, lazily loaded parts included.
    format: 'cjs',
    define: { 'import.meta.filename': '__filename', 'import.meta.dirname': '__dirname' },
    platform: 'node',
    target: 'node26',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  await copyFile(transformerLibrary(), join(outDir, 'transform.node'));
  await copyFile(esbuildProgram(), decoratorCompiler);
  await chmod(decoratorCompiler, 0o755);
  await run(node, [...kernelJsFlags, join(sourceDir, 'build/precompile.ts'), outDir]);
}

/** The package loads one of many libraries by trial; the kernel knows where its own is and starts faster. */
function transformerLibrary(): string {
  const require = createRequire(import.meta.resolve('oxc-transform'));
  return require.resolve(`@oxc-transform/binding-linux-${process.arch}-gnu`);
}

/** The package's own `bin/esbuild` may be a script. */
function esbuildProgram(): string {
  const require = createRequire(import.meta.resolve('esbuild'));
  return require.resolve(`@esbuild/linux-${process.arch}/bin/esbuild`);
}
