// Runs after `npm ci`, in the machine's own Node. ADR 28 says why.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** Libraries of many modules, with the entry points that source files import. */
const LIBRARIES = {
  typebox: { index: 'typebox-modules', compile: 'typebox-modules/compile', value: 'typebox-modules/value' },
  kysely: { index: 'kysely-modules', migration: 'kysely-modules/migration' },
};

for (const [name, entryPoints] of Object.entries(LIBRARIES)) {
  const folder = fileURLToPath(new URL(`../packages/shared/${name}`, import.meta.url));
  const outdir = join(folder, 'build');
  rmSync(outdir, { recursive: true, force: true });
  buildSync({
    absWorkingDir: folder,
    entryPoints,
    outdir,
    bundle: true,
    // The entry points share code, and a type made by one is checked by another.
    splitting: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    logLevel: 'warning',
  });
}
