/** Checks that each adapter has what a package needs, and that tests and the release know it. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';

const FILES = ['README.md', 'LICENSE', 'pyproject.toml', 'requirements-test.txt'];

describe('an adapter', () => {
  for (const folder of globSync('adapters/*').sort()) {
    const name = basename(folder);

    it(`${name} has a manifest, a licence, a README and pinned requirements of its tests`, () => {
      const missing = FILES.filter((file) => !existsSync(join(folder, file)));
      assert.deepEqual(missing, []);
      const licence = readFileSync(join(folder, 'LICENSE'), 'utf8');
      assert.equal(licence, readFileSync('LICENSE', 'utf8'));
    });

    it(`${name} is tested, released and described`, () => {
      assert.ok(existsSync(`e2e/functional/adapter-${name}.test.ts`));
      assert.match(readFileSync('scripts/release/python-package.ts', 'utf8'), new RegExp(`'${name}'`));
      for (const page of ['docs/architecture.md', 'docs/compatibility.md'])
        assert.ok(readFileSync(page, 'utf8').includes(`adapters/${name}`), page);
    });
  }
});
