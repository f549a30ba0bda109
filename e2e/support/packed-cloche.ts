/** The command line as it is published, which starts in half of the processor time of its sources. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildCliPackage } from '../../scripts/release/cli-package.ts';

let program: Promise<string> | undefined;

/** Resolves with the path of `cloche`, which has the commands for a host too. Builds it once for this process. */
export function packedCloche(): Promise<string> {
  program ??= build();
  return program;
}

async function build(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-packed-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  // Where the commands for a host are found.
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  await buildCliPackage(join(folder, 'package'));
  return join(folder, 'package/bin/cloche.js');
}
