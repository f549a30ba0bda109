import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { NEW_ACCOUNT, SERVICE_USERS } from '../../packages/host/setup/src/host/service-account.ts';
import { UNIT_PATHS } from '../../packages/host/setup/src/installation/unit-environments.ts';
import { effectiveSettings, OPERATOR_SETTINGS } from '../../packages/shared/settings/src/index.ts';
import { packDebian } from './debian-package.ts';
import { manualPage } from './manual-page.ts';
import { settingsList } from './settings-list.ts';
import type { Tree } from './tree.ts';

describe('a Debian package', () => {
  let folder: string;
  let tree: Tree;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-package-'));
    tree = { architecture: 'arm64', folder: join(folder, 'cloche'), [Symbol.dispose]: () => {} };
    mkdirSync(join(tree.folder, 'bin'), { recursive: true });
    writeFileSync(join(tree.folder, 'bin/cloche'), '#!/bin/sh\n', { mode: 0o775 });
  });
  after(() => rmSync(folder, { recursive: true }));

  async function pack(name: string): Promise<string> {
    const out = join(folder, name);
    mkdirSync(out);
    return packDebian(tree, out, { version: '1.2.3', compression: 'none' });
  }

  it('a Debian package has the same bytes each time, whatever the umask', async () => {
    const first = readFileSync(await pack('first'));
    const umask = process.umask(0o077);
    try {
      assert.ok(first.equals(readFileSync(await pack('second'))));
    } finally {
      process.umask(umask);
    }
  });

  it('a Debian package belongs to root, has its units, and settings that only root reads', async () => {
    const file = await pack('listed');
    const list = execFileSync('dpkg-deb', ['--contents', file], { encoding: 'utf8' });
    assert.match(list, /^-rwxr-xr-x root\/root .* \.\/opt\/cloche\/bin\/cloche$/m);
    assert.match(list, /^-rw------- root\/root .* \.\/etc\/cloche\/cloche\.env$/m);
    assert.match(list, /^-rw-r--r-- root\/root .* \.\/usr\/share\/man\/man1\/cloche\.1\.gz$/m);
    const units = [...list.matchAll(/\.\/usr\/lib\/systemd\/system\/(\S+)$/gm)].map(([, name]) => name);
    assert.deepEqual(
      units.filter(Boolean).sort(),
      globSync('deploy/systemd/*')
        .map((path) => path.split('/').at(-1))
        .sort(),
    );
    const fields = execFileSync('dpkg-deb', ['--field', file, 'Architecture', 'Version', 'Depends'], {
      encoding: 'utf8',
    });
    assert.match(fields, /^Architecture: arm64$/m);
    assert.match(fields, /^Version: 1\.2\.3$/m);
    assert.match(fields, /^Depends: .*\bcrun\b.*\bnftables\b/m);
  });

  it('a Debian package has scripts that a shell of POSIX parses, and that make the accounts as a start does', () => {
    for (const script of globSync('deploy/debian/*')) execFileSync('dash', ['-n', script]);
    const text = readFileSync('deploy/debian/postinst', 'utf8');
    assert.ok(text.includes(`useradd ${NEW_ACCOUNT.join(' ')} "$user"`), text);
    assert.ok(text.includes(`for user in ${Object.values(SERVICE_USERS).join(' ')}; do`));
  });

  it('a Debian package lists every setting beside the programs', async () => {
    const list = execFileSync('dpkg-deb', ['--contents', await pack('with-list')], { encoding: 'utf8' });
    assert.match(list, / \.\/opt\/cloche\/settings\.env$/m);
    const text = settingsList();
    const own = OPERATOR_SETTINGS.filter(({ readBy }) => readBy.some((reader) => reader !== 'cli'));
    for (const { name } of own) if (name !== 'CLOCHE_CONFIG_FILE') assert.match(text, new RegExp(`^#?${name}=`, 'm'));
  });

  it('a Debian package has settings that Cloche reads, also with each of its examples', () => {
    const text = readFileSync('deploy/cloche.env', 'utf8');
    const file = join(folder, 'cloche.env');
    const setBy = (content: string) => {
      writeFileSync(file, content, { mode: 0o600 });
      return effectiveSettings({ CLOCHE_CONFIG_FILE: file }).filter(({ source }) => source === 'file');
    };
    assert.deepEqual(
      setBy(text).map(({ name, value }) => [name, value]),
      [['CLOCHE_RUN_DIR', UNIT_PATHS.runDir]],
    );
    assert.equal(setBy(text.replaceAll(/^#(?=CLOCHE_)/gm, '')).length, 6);
  });

  it('a Debian package has a manual page with every command that does something', async () => {
    const page = await manualPage('1.2.3', 0);
    for (const command of ['run', 'sandbox create', 'admin key create', 'start', 'doctor']) {
      assert.match(page, new RegExp(`^\\.SS cloche ${command} `, 'm'));
    }
    assert.doesNotMatch(page, /^\.(?!TH|SH|SS|TP|B|I)/m);
  });
});
