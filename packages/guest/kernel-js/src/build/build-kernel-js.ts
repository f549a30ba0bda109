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

/** Saves the globals that the kernel needs, because user code shares the main thread's globals and can replace them. */
const ownGlobals = `"use strict";const {${[
  ...['Array', 'ArrayBuffer', 'Atomics', 'Buffer', 'Error', 'Int32Array', 'JSON', 'Map', 'Number', 'Object', 'Promise'],
  ...['Reflect', 'Set', 'SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'Uint8Array', 'URL'],
  ...['process', 'setImmediate', 'setTimeout'],
]}} = globalThis;`;

/**
 * Writes the kernel into `outDir`, which it creates if necessary. Files: `main.cjs`, which Node is started with; the
 * worker, which implements the protocol; the compiler that the worker loads, with its V8 code cache; the native library
 * of the TypeScript transformer for this machine's architecture (glibc); and in `bin/` the program that lowers
 * decorators. `node` is the Node that will run the kernel. A repeated call overwrites the same files.
 */
export async function buildKernelJs(outDir: string, node: string): Promise<void> {
  const decoratorCompiler = join(outDir, 'bin/esbuild');
  await mkdir(dirname(decoratorCompiler), { recursive: true });
  // Synchronous, because the asynchronous API leaves esbuild's process running as long as this one.
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
    // CommonJS, because an ES module would access all exports of Node's modules, including lazily loaded ones.
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

/** Returns the path of the library. The package tries several libraries at load time; a fixed path loads faster. */
function transformerLibrary(): string {
  const require = createRequire(import.meta.resolve('oxc-transform'));
  return require.resolve(`@oxc-transform/binding-linux-${process.arch}-gnu`);
}

/** Returns the path of the native program. The package's own `bin/esbuild` may be a script. */
function esbuildProgram(): string {
  const require = createRequire(import.meta.resolve('esbuild'));
  return require.resolve(`@esbuild/linux-${process.arch}/bin/esbuild`);
}
