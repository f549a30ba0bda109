import type { KernelError } from '@cloche/protocol';
import { parse } from 'acorn';
import { aliasOf, type CompiledCell, cellFileName, type Language } from '../messages.ts';
import { CellSyntaxError, syntaxErrorIn } from './cell-syntax-error.ts';
import { type Completeness, isCutOff } from './completeness.ts';
import type { JavaScript } from './javascript.ts';
import { addedNames, lowerDecorators, mayHaveDecorators } from './lower-decorators.ts';
import { type RewriteOptions, type RewrittenCell, rewriteCell } from './rewrite-cell.ts';
import { positionOf } from './text-offset.ts';
import { transformParameterDecorators, transformTypeScript } from './transform-typescript.ts';

/** Compiles the cells of one context, in order. Remembers which names are constants. */
export class CellCompiler {
  readonly #language: Language;
  readonly #constants = new Set<string>();
  readonly #globals = new Set(Object.getOwnPropertyNames(globalThis));
  readonly #aliased = new Set<string>();

  constructor(language: Language) {
    this.#language = language;
  }

  /** Compiles a small cell, so that everything is loaded before the first real one. */
  warmUp(): void {
    new CellCompiler(this.#language).compile('const warm = await 1', 0);
  }

  compile(code: string, number: number): { cell: CompiledCell } | { error: KernelError } {
    try {
      return { cell: this.#compile(code) };
    } catch (error) {
      if (error instanceof CellSyntaxError) return { error: describe(error, code, number) };
      if (error instanceof RangeError) return { error: tooDeep() };
      if (error instanceof DecoratorCompilerError) return { error: withoutPlace('Error', error.message) };
      throw error;
    }
  }

  /** Returns whether a cell could run as it is, or only with more lines. Remembers nothing of it. */
  completeness(code: string): Completeness {
    try {
      new CellCompiler(this.#language).#compile(code);
      return 'complete';
    } catch (error) {
      if (!(error instanceof CellSyntaxError)) return 'unknown';
      return isCutOff(code, error) ? 'incomplete' : 'invalid';
    }
  }

  #compile(code: string): CompiledCell {
    const javascript = this.#language === 'typescript' ? transformTypeScript(code) : { code, sourceMaps: [] };
    const { rewritten, sourceMaps } = this.#rewrite(code, javascript);
    const { source, sourceMap, declared } = rewritten;

    for (const [name, { constant }] of declared) {
      if (constant) this.#constants.add(name);
      else this.#constants.delete(name);
      if (this.#globals.has(name)) this.#aliased.add(name);
    }
    const bindings = [...declared.keys()].map((name) => ({
      name: this.#aliased.has(name) ? aliasOf(name) : name,
      global: name,
    }));
    return { source, sourceMaps: [sourceMap, ...sourceMaps], bindings };
  }

  /**
   * Rewrites a cell. Looks for decorators only in code that cannot be parsed, so that other cells are not slowed down.
   */
  #rewrite(written: string, javascript: JavaScript): { rewritten: RewrittenCell } & Pick<JavaScript, 'sourceMaps'> {
    const options = this.#options();
    try {
      return { rewritten: rewriteCell(asObjectLiteral(javascript.code), options), ...javascript };
    } catch (error) {
      if (!isParserError(error)) throw error;
      if (!mayHaveDecorators(javascript.code)) throw inWritten(written, javascript, error);
    }
    const lowered = this.#withoutDecorators(written, javascript);
    try {
      return { rewritten: rewriteCell(lowered.code, { ...options, isAdded: addedNames(written) }), ...lowered };
    } catch (error) {
      throw isParserError(error) ? inWritten(written, lowered, error) : error;
    }
  }

  #withoutDecorators(written: string, javascript: JavaScript): JavaScript {
    const ofParameters = this.#language === 'typescript' ? transformParameterDecorators(written) : undefined;
    if (ofParameters) return ofParameters;
    const lowered = lowerDecorators(javascript);
    if (lowered.status === 'lowered') return lowered.javascript;
    if (lowered.status === 'failed') throw new DecoratorCompilerError(lowered.reason);
    throw syntaxErrorIn(written, javascript, lowered.message, lowered.offset);
  }

  #options(): RewriteOptions {
    return {
      constants: this.#constants,
      aliased: this.#aliased,
      globals: this.#globals,
      lenientImports: this.#language === 'typescript',
      isAdded: () => false,
    };
  }
}

class DecoratorCompilerError extends Error {
  constructor(reason: string) {
    super(`The decorators of the cell could not be compiled: ${reason}`);
  }
}

/** Wraps a cell that is only an object literal in parentheses, as Node's REPL does. The grammar reads it as a block. */
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

/** The error that acorn throws. */
interface ParserError extends SyntaxError {
  pos: number;
}

function isParserError(error: unknown): error is ParserError {
  return error instanceof SyntaxError && 'pos' in error;
}

function inWritten(written: string, javascript: JavaScript, { message, pos }: ParserError): CellSyntaxError {
  return syntaxErrorIn(written, javascript, message.replace(/ \(\d+:\d+\)$/, ''), pos);
}

/** Returns the error for code that nests so deeply that the parser's recursion overflows the stack. */
function tooDeep(): KernelError {
  return withoutPlace('RangeError', 'The cell nests too deeply to be compiled');
}

function withoutPlace(name: string, message: string): KernelError {
  return { name, message, traceback: [`${name}: ${message}`] };
}

function describe(error: CellSyntaxError, code: string, number: number): KernelError {
  const { line: lineIndex, column } = positionOf(code, error.offset);
  const line = code.split('\n')[lineIndex] ?? '';
  return {
    name: 'SyntaxError',
    message: error.message,
    traceback: [
      `${cellFileName(number)}:${lineIndex + 1}:${column + 1}`,
      line,
      `${line.slice(0, column).replace(/[^\t]/g, ' ')}^`,
      `SyntaxError: ${error.message}`,
    ],
  };
}
