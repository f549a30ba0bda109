import { createRequire } from 'node:module';
import type { TransformOptions, TransformResult } from 'oxc-transform';
import { CellSyntaxError } from './cell-syntax-error.ts';
import type { JavaScript } from './javascript.ts';
import { utf16Length } from './text-offset.ts';

interface TransformerLibrary {
  transformSync(fileName: string, code: string, options: TransformOptions): TransformResult;
}

const options: TransformOptions = {
  lang: 'ts',
  sourceType: 'module',
  target: 'esnext',
  sourcemap: true,
  // Keeps unused imports, because a later cell may use them.
  typescript: { onlyRemoveTypeImports: true },
  // The helpers for decorators are a global of the kernel, not a package of the user.
  helpers: { mode: 'External' as NonNullable<NonNullable<TransformOptions['helpers']>['mode']> },
};

let library: TransformerLibrary | undefined;

/**
 * Removes types and compiles enums, namespaces and parameter properties to JavaScript. Keeps decorators. Checks no
 * types.
 * @throws CellSyntaxError
 */
export function transformTypeScript(code: string): JavaScript {
  return toJavaScript(transform(code, options));
}

/**
 * Transforms a cell with parameter decorators, which only TypeScript's `experimentalDecorators` supports. Compiles all
 * decorators of the cell in that way. Returns `undefined` if no parameter has one.
 *
 * @throws CellSyntaxError
 */
export function transformParameterDecorators(code: string): JavaScript | undefined {
  const result = transform(code, { ...options, decorator: { legacy: true } });
  return 'decorateParam' in result.helpersUsed ? toJavaScript(result) : undefined;
}

function transform(code: string, withOptions: TransformOptions): TransformResult {
  library ??= createRequire(import.meta.filename)('./transform.node') as TransformerLibrary;
  const result = library.transformSync('cell.ts', code, withOptions);

  const error = result.errors.find(({ severity }) => severity === 'Error');
  // The library's offsets count bytes of UTF-8.
  if (error) throw new CellSyntaxError(error.message, utf16Length(code, error.labels[0]?.start ?? 0));
  return result;
}

function toJavaScript({ code, map }: TransformResult): JavaScript {
  return { code, sourceMaps: [JSON.stringify({ ...map, sourcesContent: undefined })] };
}
