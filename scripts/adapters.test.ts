/** Checks that each adapter has what a package needs, and that tests and the release know it. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';

const OF_PYTHON = ['README.md', 'LICENSE', 'pyproject.toml', 'requirements-test.txt'];
const OF_TYPESCRIPT = ['README.md', 'LICENSE', 'package.json', 'src/index.ts'];

describe('an adapter', () => {
  for (const folder of globSync('adapters/*').sort()) {
    const name = basename(folder);
    const isPython = existsSync(join(folder, 'pyproject.toml'));

    it(`${name} has a manifest, a licence, a README and pinned requirements of its tests`, () => {
      const missing = (isPython ? OF_PYTHON : OF_TYPESCRIPT).filter((file) => !existsSync(join(folder, file)));
      assert.deepEqual(missing, []);
      const licence = readFileSync(join(folder, 'LICENSE'), 'utf8');
      assert.equal(licence, readFileSync('LICENSE', 'utf8'));
    });

    it(`${name} is tested, released and described`, () => {
      assert.ok(existsSync(`e2e/functional/adapter-${name}.test.ts`));
      if (isPython) assert.match(readFileSync('scripts/release/python-package.ts', 'utf8'), new RegExp(`'${name}'`));
      else
        assert.ok(readFileSync('e2e/functional/npm-packages.test.ts', 'utf8').includes(`'${packageOf(folder).name}'`));
      for (const page of ['docs/architecture.md', 'docs/compatibility.md'])
        assert.ok(readFileSync(page, 'utf8').includes(`adapters/${name}`), page);
    });

    // Tests of adapters in Python pin their host by requirements-test.txt.
    if (isPython) continue;
    it(`${name} depends on the SDK alone, and is tested with the oldest version of its host that it takes`, () => {
      const { dependencies, peerDependencies, devDependencies } = packageOf(folder);
      assert.deepEqual(Object.keys(dependencies), ['@cloche/sdk']);
      const hosts = Object.entries(peerDependencies).map(([host, range]) => [host, String(range).replace('^', '')]);
      assert.deepEqual(hosts, Object.entries(devDependencies));
    });
  }
});

function packageOf(folder: string) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}
