import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundle } from './bundle.ts';
import { type BuiltPackage, completePackage, emptyFolder } from './package-folder.ts';

const SOURCE = 'packages/clients/cli';
const PROGRAM = `#!/usr/bin/env node
import * as module from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

// Node 22.8 and newer keep the compiled code for the next start. Node's default is a folder that every user of the
// machine can write before this one does.
module.enableCompileCache?.(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cloche'));
await import('../dist/main.js');
`;

/** Builds `cloche`: the command line without dependencies, and without the commands for a host. */
export async function buildCliPackage(folder: string): Promise<BuiltPackage> {
  emptyFolder(folder);
  const contained = await bundle({
    entryPoints: { main: `${SOURCE}/src/main.ts` },
    outdir: join(folder, 'dist'),
    platform: 'node',
    // CommonJS in a bundle finds the modules of Node by it.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module';const require = requireOf(import.meta.url);",
    },
    // Native parts that `ws` uses where they are installed.
    external: ['bufferutil', 'utf-8-validate'],
  });
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/cloche.js'), PROGRAM, { mode: 0o755 });
  const manifest = {
    name: 'cloche',
    description: 'Command line of Cloche: run untrusted code in isolated sandboxes',
    keywords: ['sandbox', 'code-execution', 'code-interpreter', 'isolation', 'cli'],
    bin: { cloche: './bin/cloche.js' },
    exports: { './package.json': './package.json' },
    files: ['bin', 'dist', 'THIRD-PARTY-NOTICES.txt'],
  };
  return completePackage(SOURCE, folder, manifest, contained);
}
