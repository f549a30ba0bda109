import { registerHooks } from 'node:module';
import { basename, delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A name that is looked up in folders of packages. */
const PACKAGE = /^(?![./#]|[a-z][a-z\d+.-]*:)/i;

/**
 * Lets `import` find the packages in the folders of `NODE_PATH`, where the globally installed ones are. Node looks for
 * them there for `require` alone. Other packages precede them, as with `require`.
 */
export function findGlobalPackages(nodePath: string): void {
  const folders = nodePath.split(delimiter).filter((folder) => basename(folder) === 'node_modules');
  const parents = folders.map((folder) => pathToFileURL(join(dirname(folder), 'global.mjs')).href);
  if (parents.length === 0) return;
  registerHooks({
    resolve: (specifier, context, nextResolve) => {
      try {
        return nextResolve(specifier, context);
      } catch (error) {
        if (!isMissing(error) || !PACKAGE.test(specifier)) throw error;
        for (const parentURL of parents) {
          try {
            return nextResolve(specifier, { ...context, parentURL });
          } catch (failure) {
            if (!isMissing(failure)) throw failure;
          }
        }
        throw error;
      }
    },
  });
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
}
