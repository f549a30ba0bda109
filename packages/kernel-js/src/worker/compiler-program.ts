import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Script } from 'node:vm';
import type * as Compiler from '../compile/compile-cell.ts';
import type { Language } from '../messages.ts';

/**
 * The compiler of cells, from a kernel's folder: most of the kernel's code by far. V8 has compiled it when the kernel was
 * built, which spares two thirds of what loading it and compiling a first cell take.
 */
export class CompilerProgram {
  readonly #path: string;
  readonly #script: Script;

  /** @param precompiled of the same program and the same Node; it is compiled anew if V8 takes it for another's. */
  constructor(folder: string, precompiled?: Buffer) {
    this.#path = join(folder, 'compiler.cjs');
    // As Node wraps a CommonJS module.
    const source = `(function(exports,require,module,__filename,__dirname){${readFileSync(this.#path, 'utf8')}\n})`;
    this.#script = new Script(source, { filename: this.#path, ...(precompiled && { cachedData: precompiled }) });
  }

  /** For the cells of one context. */
  start(language: Language): Compiler.CellCompiler {
    const module = { exports: {} as typeof Compiler };
    const folder = join(this.#path, '..');
    this.#script.runInThisContext()(module.exports, createRequire(this.#path), module, this.#path, folder);
    return new module.exports.CellCompiler(language);
  }

  /** What `precompiled` is made of, once the program has run. */
  precompile(): Buffer {
    return this.#script.createCachedData();
  }

  /** Whether V8 took what it was given. */
  get isPrecompiled(): boolean {
    return this.#script.cachedDataRejected === false;
  }
}

export const PRECOMPILED_FILE = 'compiler.bin';

/**
 * The kernel says that it is ready before it loads its compiler: while the first cell is on its way.
 */
export function loadCompiler(folder: string, language: Language): Compiler.CellCompiler {
  return new CompilerProgram(folder, readFileSync(join(folder, PRECOMPILED_FILE))).start(language);
}
