import { createRequire } from 'node:module';
import type * as Compiler from '../compile/compile-cell.ts';
import type { Language } from '../messages.ts';

/**
 * The compiler for the cells of one context. It is most of the kernel's code, and the kernel says that it is ready before
 * it loads it: while the first cell is on its way.
 */
export function loadCompiler(language: Language): Compiler.CellCompiler {
  const { CellCompiler } = createRequire(import.meta.filename)('./compiler.cjs') as typeof Compiler;
  return new CellCompiler(language);
}
