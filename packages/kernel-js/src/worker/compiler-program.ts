import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PrecompiledProgram } from '@cloche/node-support';
import type * as Compiler from '../compile/compile-cell.ts';
import type { Language } from '../messages.ts';

/**
 * The compiler of cells, from a kernel's folder: most of the kernel's code by far. V8 has compiled it when the kernel was
 * built, which spares two thirds of what loading it and compiling a first cell take.
 */
export class CompilerProgram extends PrecompiledProgram<typeof Compiler> {
  constructor(folder: string, precompiled?: Buffer) {
    super(join(folder, 'compiler.cjs'), precompiled);
  }

  /** For the cells of one context. */
  start(language: Language): Compiler.CellCompiler {
    const { CellCompiler } = this.load();
    return new CellCompiler(language);
  }
}

export const PRECOMPILED_FILE = 'compiler.bin';

/**
 * The kernel says that it is ready before it loads its compiler: while the first cell is on its way.
 */
export function loadCompiler(folder: string, language: Language): Compiler.CellCompiler {
  return new CompilerProgram(folder, readFileSync(join(folder, PRECOMPILED_FILE))).start(language);
}
