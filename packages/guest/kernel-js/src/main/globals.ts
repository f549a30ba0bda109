import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Display } from './display.ts';

/**
 * Defines `display` and the globals that a CommonJS file in the working directory has. They are ordinary properties,
 * so a cell may declare the same names.
 */
export function defineGlobals(display: Display): void {
  const filename = join(process.cwd(), 'cell.js');
  const require = createRequire(filename);
  const module = {
    id: '.',
    filename,
    exports: {},
    children: [],
    paths: require.resolve.paths('') ?? [],
    loaded: false,
  };
  // `if (require.main === module)` is true in a cell, as in a program that was started directly.
  require.main = module as unknown as NodeJS.Module;
  define({ require, module, exports: module.exports, __filename: filename, __dirname: process.cwd(), display });
}

/** Removes the kernel's own module, so that a cell only sees modules that it has loaded. */
export function hideModule(filename: string): void {
  delete createRequire(filename).cache[filename];
  Reflect.deleteProperty(process, 'mainModule');
}

function define(values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}
