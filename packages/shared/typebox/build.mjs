// Runs after `npm ci`, in the machine's own Node.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const folder = fileURLToPath(new URL('.', import.meta.url));
const outdir = join(folder, 'build');
rmSync(outdir, { recursive: true, force: true });
buildSync({
  absWorkingDir: folder,
  entryPoints: { index: 'typebox-modules', compile: 'typebox-modules/compile', value: 'typebox-modules/value' },
  outdir,
  bundle: true,
  // The entry points share code, and a type made by one is checked by another.
  splitting: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  logLevel: 'warning',
});
