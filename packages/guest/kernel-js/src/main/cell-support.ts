import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InterruptedError, type Runs } from './runs.ts';

/** Functions and values that the rewritten code of a cell uses; see `rewriteCell`. */
export interface CellSupport {
  /** `import.meta`, as in a file of the working directory. */
  readonly meta: { url: string; dirname: string; filename: string; resolve(specifier: string): string };
  /** Called after each await. Throws if the run was stopped meanwhile. */
  resumed<T>(value: T): T;
  /** Returns the named exports; `*` is the module itself. If `from` is given, throws for a missing export. */
  imported(module: Record<string, unknown>, names: readonly string[], from?: string): unknown[];
  /** Throws the error of an assignment to a constant. */
  constant(name: string): never;
}

export function createCellSupport(runs: Runs): CellSupport {
  return {
    meta: {
      get url() {
        return pathToFileURL(cellPath()).href;
      },
      get filename() {
        return cellPath();
      },
      get dirname() {
        return process.cwd();
      },
      resolve: (specifier) => {
        if (specifier.startsWith('.')) return new URL(specifier, pathToFileURL(cellPath())).href;
        const resolved = createRequire(cellPath()).resolve(specifier);
        return resolved.startsWith('/') ? pathToFileURL(resolved).href : resolved;
      },
    },
    resumed: (value) => {
      if (runs.isInStoppedRun()) throw new InterruptedError('The run was interrupted');
      return value;
    },
    imported: (module, names, from) =>
      names.map((name) => {
        if (name === '*') return module;
        if (from === undefined || name in module) return module[name];
        throw new SyntaxError(`The requested module '${from}' does not provide an export named '${name}'`);
      }),
    constant: () => {
      throw new TypeError('Assignment to constant variable.');
    },
  };
}

/** Returns the path from which cells resolve modules: a file in the working directory. */
export function cellPath(): string {
  return join(process.cwd(), 'cell.mjs');
}
