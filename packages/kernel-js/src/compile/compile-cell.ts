import type { KernelError } from '@cloche/protocol';
import { parse } from 'acorn';
import { type CompiledCell, cellFileName, type Language } from '../messages.ts';
import { CellSyntaxError } from './cell-syntax-error.ts';
import { aliasOf, rewriteCell } from './rewrite-cell.ts';
import { transformTypeScript } from './transform-typescript.ts';

/** Compiles the cells of one context, in order. It remembers what is constant. */
export class CellCompiler {
  readonly #language: Language;
  readonly #constants = new Set<string>();
  readonly #globals = new Set(Object.getOwnPropertyNames(globalThis));
  readonly #aliased = new Set<string>();

  constructor(language: Language) {
    this.#language = language;
  }

  /** Loads what the first cell would otherwise wait for. */
  warmUp(): void {
    new CellCompiler(this.#language).compile('const warm = await 1', 0);
  }

  compile(code: string, number: number): { cell: CompiledCell } | { error: KernelError } {
    try {
      return { cell: this.#compile(code) };
    } catch (error) {
      if (error instanceof CellSyntaxError) return { error: describe(error, code, number) };
      if (error instanceof RangeError) return { error: tooDeep() };
      throw error;
    }
  }

  #compile(code: string): CompiledCell {
    const isTypeScript = this.#language === 'typescript';
    const javascript = isTypeScript ? transformTypeScript(code) : { code, sourceMap: undefined };
    const { source, sourceMap, declared } = parsed(asObjectLiteral(javascript.code), {
      constants: this.#constants,
      aliased: this.#aliased,
      globals: this.#globals,
      lenientImports: isTypeScript,
    });

    for (const [name, { constant }] of declared) {
      if (constant) this.#constants.add(name);
      else this.#constants.delete(name);
      if (this.#globals.has(name)) this.#aliased.add(name);
    }
    const bindings = [...declared.keys()].map((name) => ({
      name: this.#aliased.has(name) ? aliasOf(name) : name,
      global: name,
    }));
    const sourceMaps = javascript.sourceMap ? [sourceMap, javascript.sourceMap] : [sourceMap];
    return { source, sourceMaps, bindings };
  }
}

/** `{ a: 1 }` alone is meant as a value, as Node's own REPL takes it, though the grammar says that it is a block. */
function asObjectLiteral(code: string): string {
  if (!/^\s*\{/.test(code) || !/\}\s*$/.test(code)) return code;
  try {
    const wrapped = `(${code})`;
    const { body } = parse(wrapped, { ecmaVersion: 'latest', allowAwaitOutsideFunction: true });
    const [statement] = body;
    const isObject = statement?.type === 'ExpressionStatement' && statement.expression.type === 'ObjectExpression';
    return body.length === 1 && isObject ? wrapped : code;
  } catch {
    return code;
  }
}

function parsed(code: string, options: Parameters<typeof rewriteCell>[1]) {
  try {
    return rewriteCell(code, options);
  } catch (error) {
    if (!(error instanceof SyntaxError) || !('pos' in error)) throw error;
    throw new CellSyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''), Number(error.pos));
  }
}

/** Parsing recurses as deeply as the code nests. */
function tooDeep(): KernelError {
  const message = 'The cell nests too deeply to be compiled';
  return { name: 'RangeError', message, traceback: [`RangeError: ${message}`] };
}

function describe(error: CellSyntaxError, code: string, number: number): KernelError {
  const before = code.slice(0, error.offset).split('\n');
  const column = before.at(-1)?.length ?? 0;
  const line = code.split('\n')[before.length - 1] ?? '';
  return {
    name: 'SyntaxError',
    message: error.message,
    traceback: [
      `${cellFileName(number)}:${before.length}:${column + 1}`,
      line,
      `${line.slice(0, column).replace(/[^\t]/g, ' ')}^`,
      `SyntaxError: ${error.message}`,
    ],
  };
}
