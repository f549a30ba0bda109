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
  // What a cell imports may be used by the next one only.
  typescript: { onlyRemoveTypeImports: true },
  // The support code of decorators is a global of the kernel's, not a package of the user's.
  helpers: { mode: 'External' as NonNullable<NonNullable<TransformOptions['helpers']>['mode']> },
};

let library: TransformerLibrary | undefined;

/**
 * Removes types and turns enums, namespaces and parameter properties into JavaScript; decorators stay. Checks no types.
 *
 * @throws CellSyntaxError
 */
export function transformTypeScript(code: string): JavaScript {
  return toJavaScript(transform(code, options));
}

/**
 * The same for a cell with decorators of parameters, which only TypeScript's `experimentalDecorators` has: all of the
 * cell's decorators become calls as it has them. `undefined` if there is none of a parameter.
 */
export function transformParameterDecorators(code: string): JavaScript | undefined {
  const result = transform(code, { ...options, decorator: { legacy: true } });
  return 'decorateParam' in result.helpersUsed ? toJavaScript(result) : undefined;
}

function transform(code: string, withOptions: TransformOptions): TransformResult {
  library ??= createRequire(import.meta.filename)('./transform.node') as TransformerLibrary;
  const result = library.transformSync('cell.ts', code, withOptions);

  const error = result.errors.find(({ severity }) => severity === 'Error');
  // The library counts bytes of UTF-8.
  if (error) throw new CellSyntaxError(error.message, utf16Length(code, error.labels[0]?.start ?? 0));
  return result;
}

function toJavaScript({ code, map }: TransformResult): JavaScript {
  return { code, sourceMaps: [JSON.stringify({ ...map, sourcesContent: undefined })] };
}
