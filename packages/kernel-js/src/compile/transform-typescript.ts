import { createRequire } from 'node:module';
import type { TransformOptions, TransformResult } from 'oxc-transform';
import { CellSyntaxError } from './cell-syntax-error.ts';

interface TransformerLibrary {
  transformSync(fileName: string, code: string, options: TransformOptions): TransformResult;
}

const options: TransformOptions = {
  lang: 'ts',
  sourceType: 'module',
  target: 'esnext',
  sourcemap: true,
  // What a cell imports may be used by the next one only.
  typescript: { onlyRemoveTypeImports: true },
  decorator: { legacy: true },
  // The support code of decorators is a global of the kernel's, not a package of the user's.
  helpers: { mode: 'External' as NonNullable<NonNullable<TransformOptions['helpers']>['mode']> },
};

let library: TransformerLibrary | undefined;

/**
 * Removes types and turns enums, namespaces, parameter properties and (legacy) decorators into JavaScript. Checks no
 * types.
 *
 * @throws CellSyntaxError
 */
export function transformTypeScript(code: string): { code: string; sourceMap: string } {
  library ??= createRequire(import.meta.url)('./transform.node') as TransformerLibrary;
  const result = library.transformSync('cell.ts', code, options);

  const error = result.errors.find(({ severity }) => severity === 'Error');
  if (error) throw new CellSyntaxError(error.message, utf16Offset(code, error.labels[0]?.start ?? 0));
  return { code: result.code, sourceMap: JSON.stringify({ ...result.map, sourcesContent: undefined }) };
}

/** The library counts bytes of UTF-8. */
function utf16Offset(code: string, byteOffset: number): number {
  return Buffer.from(code).toString('utf8', 0, byteOffset).length;
}
