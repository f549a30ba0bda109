/** `node <kernelJsFlags> precompile.ts FOLDER`, by the Node that will run the kernel: writes what V8 makes of its compiler. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CompilerProgram, PRECOMPILED_FILE } from '../worker/compiler-program.ts';

const [folder = ''] = process.argv.slice(2);
const program = new CompilerProgram(folder);
// With the functions that a first cell takes.
program.start('javascript').warmUp();
writeFileSync(join(folder, PRECOMPILED_FILE), program.precompile());
