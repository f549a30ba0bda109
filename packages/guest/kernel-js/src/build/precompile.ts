/**
 * `node <kernelJsFlags> precompile.ts FOLDER`, run with the Node that will run the kernel. Writes the compiler's V8
 * code cache.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CompilerProgram, PRECOMPILED_FILE } from '../worker/compiler-program.ts';

const [folder = ''] = process.argv.slice(2);
const program = new CompilerProgram(folder);
// Includes the functions that a first cell needs.
program.start('javascript').warmUp();
writeFileSync(join(folder, PRECOMPILED_FILE), program.precompile());
