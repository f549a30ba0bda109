import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { installCommands, isPresent, SYSTEM_PACKAGES } from '../starter/system-packages.mjs';

const folder = mkdtempSync(join(tmpdir(), 'cloche-packages-'));
after(() => rmSync(folder, { recursive: true }));
const packages = { 'apt-get': '', dnf: '', zypper: '', pacman: '' };

describe('what a distribution has', () => {
  it('what a distribution has is found by its files, whoever put them there', () => {
    const file = join(folder, 'cloche-tool');
    assert.equal(isPresent({ anyOf: ['/nowhere', file], packages }), false);
    writeFileSync(file, '');
    assert.equal(isPresent({ anyOf: ['/nowhere', file], packages }), true);
    assert.equal(isPresent({ program: 'cloche-no-such-program', packages }), false);
    assert.equal(isPresent({ program: 'sh', packages }), true);
    assert.equal(isPresent({ library: 'libc.so.6', packages }), true);
    assert.equal(isPresent({ library: 'libcloche-none.so.1', packages }), false);
  });

  it('what a distribution has is installed by names of that distribution', () => {
    for (const { packages } of SYSTEM_PACKAGES) {
      for (const name of Object.values(packages)) assert.match(name, /^[a-z0-9][a-z0-9.+-]+$/);
    }
    assert.deepEqual(installCommands('pacman', ['crun']).install, ['--sync', '--noconfirm', '--needed', 'crun']);
  });
});
