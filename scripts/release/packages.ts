/** Builds the packages that strangers install from npm and PyPI, checks them, and packs them. */
import { globSync, mkdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { buildAdapterPackage } from './adapter-package.ts';
import { checkPackage, minifiedBytes } from './check-package.ts';
import { buildCliPackage } from './cli-package.ts';
import { buildPythonPackages } from './python-package.ts';
import { buildSdkPackage } from './sdk-package.ts';
import { packTarball } from './tarball.ts';

/** The SDK with everything that a page loads of it. */
const MAX_SDK_BYTES = 60_000;

/** Packs the SDK, the command line and the adapters for npm. Returns a line for each. */
export async function packNpm(out: string): Promise<string[]> {
  mkdirSync(out, { recursive: true });
  const sdk = await buildSdkPackage(join(out, 'packages/sdk'));
  const cli = await buildCliPackage(join(out, 'packages/cloche'));
  const adapters = globSync('adapters/*/package.json').sort().map(dirname);
  const ofAdapters = adapters.map((source) => buildAdapterPackage(source, join(out, 'packages', basename(source))));
  const lines: string[] = [];
  for (const built of [sdk, cli, ...(await Promise.all(ofAdapters))]) {
    const tarball = packTarball(built, out);
    await checkPackage(built, tarball);
    lines.push(lineOf(tarball));
  }
  const bytes = await minifiedBytes(join(sdk.folder, 'dist/index.js'));
  if (bytes > MAX_SDK_BYTES)
    throw new Error(`@cloche/sdk has ${bytes} bytes in a page; at most ${MAX_SDK_BYTES} are allowed.`);
  return [...lines, `${sdk.name}: ${(bytes / 1000).toFixed(1)} kB minified in a page`];
}

/** Packs the SDK and the adapters in Python. Returns a line for each. */
export function packPython(out: string): string[] {
  return buildPythonPackages(out).map(lineOf);
}

function lineOf({ file, files, bytes }: { file: string; files: readonly string[]; bytes: number }): string {
  return `${file}: ${files.length} files, ${(bytes / 1000).toFixed(1)} kB`;
}
