import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InterruptedError, type Runs } from './runs.ts';

/** What the rewritten code of a cell calls; see `rewriteCell`. */
export interface CellSupport {
  /** `import.meta`, as that of a file in the working directory. */
  readonly meta: { url: string; dirname: string; filename: string; resolve(specifier: string): string };
  /** Follows each wait. Throws if the run was stopped meanwhile. */
  resumed<T>(value: T): T;
  /** The exports named (`*` is the module itself). Throws on one that is missing if `from` names the module. */
  imported(module: Record<string, unknown>, names: readonly string[], from?: string): unknown[];
  /** Throws: a constant was assigned to. */
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

/** Cells resolve modules as a file in the working directory would. */
export function cellPath(): string {
  return join(process.cwd(), 'cell.mjs');
}
