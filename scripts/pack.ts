/**
 * `npm run pack`: builds the packages that strangers install, checks them, and packs them into `dist`. Publishes
 * nothing. `--out` names another folder.
 */
import { globSync, mkdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildAdapterPackage } from './release/adapter-package.ts';
import { checkPackage, minifiedBytes } from './release/check-package.ts';
import { buildCliPackage } from './release/cli-package.ts';
import { buildPythonPackages } from './release/python-package.ts';
import { buildSdkPackage } from './release/sdk-package.ts';
import { packTarball } from './release/tarball.ts';

/** The SDK with everything that a page loads of it. */
const MAX_SDK_BYTES = 60_000;

const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

const sdk = await buildSdkPackage(join(out, 'packages/sdk'));
const cli = await buildCliPackage(join(out, 'packages/cloche'));
const adapters = globSync('adapters/*/package.json').sort().map(dirname);
const ofAdapters = adapters.map((source) => buildAdapterPackage(source, join(out, 'packages', basename(source))));
for (const built of [sdk, cli, ...(await Promise.all(ofAdapters))]) {
  const tarball = packTarball(built, out);
  await checkPackage(built, tarball);
  console.log(`${tarball.file}: ${tarball.files.length} files, ${(tarball.bytes / 1000).toFixed(1)} kB`);
}
for (const { file, files, bytes } of buildPythonPackages(out)) {
  console.log(`${file}: ${files.length} files, ${(bytes / 1000).toFixed(1)} kB`);
}
const bytes = await minifiedBytes(join(sdk.folder, 'dist/index.js'));
if (bytes > MAX_SDK_BYTES)
  throw new Error(`@cloche/sdk has ${bytes} bytes in a page; at most ${MAX_SDK_BYTES} are allowed.`);
console.log(`${sdk.name}: ${(bytes / 1000).toFixed(1)} kB minified in a page`);
