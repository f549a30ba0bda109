import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodeCachedProgram } from '@cloche/node-support';
import type * as Compiler from '../compile/compile-cell.ts';
import type { Language } from '../messages.ts';

/**
 * The compiler of cells, loaded from a kernel's folder. It is most of the kernel's code. Its V8 code cache, written
 * when the kernel was built, saves two thirds of the time for loading it and compiling a first cell.
 */
export class CompilerProgram extends CodeCachedProgram<typeof Compiler> {
  constructor(folder: string, precompiled?: Buffer) {
    super(join(folder, 'compiler.cjs'), precompiled);
  }

  /** Returns a compiler for the cells of one context. */
  start(language: Language): Compiler.CellCompiler {
    const { CellCompiler } = this.load();
    return new CellCompiler(language);
  }
}

export const PRECOMPILED_FILE = 'compiler.bin';

/** Loads the compiler. The kernel does so after it has reported ready, while the first cell is on its way. */
export function loadCompiler(folder: string, language: Language): Compiler.CellCompiler {
  return new CompilerProgram(folder, readFileSync(join(folder, PRECOMPILED_FILE))).start(language);
}
