import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { checkPackage } from './check-package.ts';
import { packTarball } from './tarball.ts';

const MANIFEST = {
  name: 'sample',
  version: '1.0.0',
  license: 'Apache-2.0',
  type: 'module',
  bin: { sample: './bin/sample.js' },
  files: ['bin', 'dist', 'THIRD-PARTY-NOTICES.txt'],
};
const WHOLE: Readonly<Record<string, string>> = {
  'README.md': '# sample\n',
  LICENSE: 'Apache-2.0\n',
  'THIRD-PARTY-NOTICES.txt': 'none\n',
  'bin/sample.js': "#!/usr/bin/env node\nimport '../dist/index.js';\n",
  'dist/index.js': "import { readFileSync } from 'node:fs';\nexport const text = readFileSync('a', 'utf8');\n",
};

describe('checkPackage', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-check-package-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function check(
    changes: Readonly<Record<string, string | undefined>>,
    manifest: object = {},
    imports: readonly string[] = [],
  ): Promise<void> {
    const files = { ...WHOLE, ...changes, 'package.json': JSON.stringify({ ...MANIFEST, ...manifest }) };
    for (const [name, text] of Object.entries(files)) {
      if (text === undefined) continue;
      mkdirSync(dirname(join(folder, 'package', name)), { recursive: true });
      writeFileSync(join(folder, 'package', name), text);
    }
    const built = { name: MANIFEST.name, version: MANIFEST.version, folder: join(folder, 'package'), imports };
    return checkPackage(built, packTarball(built, folder));
  }

  it('checkPackage accepts a package that has what it needs and nothing else', () => check({}));

  it('checkPackage refuses files that were not built, and names what is missing', async () => {
    const wrong = { LICENSE: undefined, 'dist/index.test.js': '', 'dist/index.ts': '' };
    await assert.rejects(check(wrong), ({ message }: Error) => {
      assert.match(message, /LICENSE is missing/);
      assert.match(message, /dist\/index\.test\.js does not belong in it/);
      assert.match(message, /dist\/index\.ts does not belong in it/);
      return true;
    });
  });

  it('checkPackage refuses imports of other packages, dependencies, and folders of this machine', async () => {
    const code = `import { LIMITS } from '@cloche/contract';\nimport('typebox');\nconsole.log('${resolve('.')}');\n`;
    await assert.rejects(check({ 'dist/index.js': code }, { dependencies: { typebox: '1' } }), ({ message }: Error) => {
      assert.match(message, /dist\/index\.js imports @cloche\/contract/);
      assert.match(message, /dist\/index\.js imports typebox/);
      assert.match(message, /dist\/index\.js names the folder/);
      assert.match(message, /package\.json has dependencies/);
      return true;
    });
  });

  it('checkPackage accepts imports of a host that the manifest declares', () => {
    const code = `export { part } from '@host/core/part';\n`;
    return check({ 'dist/index.js': code }, { peerDependencies: { '@host/core': '^2.0.0' } }, ['@host/core']);
  });

  it('checkPackage refuses a host that is not declared, or is declared and bundled', async () => {
    const code = `import { host } from 'host';\nhost();\n`;
    await assert.rejects(check({ 'dist/index.js': code }, {}, ['host']), /package\.json does not declare host/);
    await assert.rejects(check({}, { peerDependencies: { host: '1' } }, ['host']), /no file imports host/);
    await assert.rejects(check({}, { peerDependencies: { host: '1' } }), /package\.json has peerDependencies: host/);
  });

  it('checkPackage refuses a manifest that names files which are not there', async () => {
    await assert.rejects(check({}, { bin: { sample: './bin/other.js' } }), /publint: .*bin\/other\.js/);
  });
});
