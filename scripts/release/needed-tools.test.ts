import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { requireTools } from './needed-tools.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-tools-'));
  mkdirSync(join(folder, 'bin'));
  for (const name of ['dpkg-deb', 'npm']) writeFileSync(join(folder, 'bin', name), '#!/bin/sh\n', { mode: 0o755 });
  // A file that cannot be run is no program.
  writeFileSync(join(folder, 'bin/gpg'), '', { mode: 0o644 });
});
after(() => rmSync(folder, { recursive: true }));

const CASES: readonly [readonly string[], RegExp | undefined][] = [
  [['deb', 'npm', 'check'], undefined],
  [['python', 'templates', 'checksums', 'sbom', 'archive'], undefined],
  [['index'], /Missing: apt-ftparchive\. Run `apt-get install apt-utils`/],
  [['deb', 'index', 'check'], /Missing: apt-ftparchive\./],
  [['checksums', 'signature'], /Missing: gpg, gpgv\. Run `apt-get install gnupg gpgv`/],
  [['index', 'signature'], /Missing: apt-ftparchive, gpg, gpgv\./],
];
for (const [parts, refusal] of CASES) {
  it(`a release of ${parts.join(', ')} ${refusal ? 'names the programs that are missing' : 'has its programs'}`, () => {
    const check = () => requireTools(parts, `${join(folder, 'none')}:${join(folder, 'bin')}`);
    if (refusal === undefined) check();
    else assert.throws(check, refusal);
  });
}
