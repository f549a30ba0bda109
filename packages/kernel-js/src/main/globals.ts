import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Display } from './display.ts';

/**
 * What a CommonJS file in the working directory would have, and `display`. They are ordinary properties: a cell may
 * declare the same names.
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
  // `if (require.main === module)` holds in a cell: it is what was started.
  require.main = module as unknown as NodeJS.Module;
  define({ require, module, exports: module.exports, __filename: filename, __dirname: process.cwd(), display });
}

/** A cell finds no module that it did not load itself. */
export function hideModule(filename: string): void {
  delete createRequire(filename).cache[filename];
  Reflect.deleteProperty(process, 'mainModule');
}

function define(values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}
