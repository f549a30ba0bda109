import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { Script } from 'node:vm';

/**
 * A CommonJS program in a file, with what V8 made of it when it was built: loading it then compiles nothing that had run by
 * that time.
 */
export class PrecompiledProgram<Exports> {
  readonly #path: string;
  readonly #script: Script;

  /** @param precompiled of the same program, Node and flags; the program is compiled anew if V8 takes it for another's. */
  constructor(path: string, precompiled?: Buffer) {
    this.#path = path;
    // As Node wraps a CommonJS module.
    const source = `(function(exports,require,module,__filename,__dirname){${readFileSync(path, 'utf8')}\n})`;
    this.#script = new Script(source, { filename: path, ...(precompiled && { cachedData: precompiled }) });
  }

  /** Runs it; each time it is another module. */
  load(): Exports {
    const module = { exports: {} as Exports };
    const run = this.#script.runInThisContext();
    run(module.exports, createRequire(this.#path), module, this.#path, dirname(this.#path));
    return module.exports;
  }

  /** What `precompiled` is made of: all that has been compiled of it by now. */
  precompile(): Buffer {
    return this.#script.createCachedData();
  }

  /** Whether V8 took what it was given. */
  get isPrecompiled(): boolean {
    return this.#script.cachedDataRejected === false;
  }
}
