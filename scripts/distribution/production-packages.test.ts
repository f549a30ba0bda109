import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { GUEST_SOURCES } from '../../packages/guest/agent/src/guest/build-guest.ts';
import { PROGRAMS } from '../../packages/host/setup/src/index.ts';
import { importsOf } from '../import-rules.ts';
import { productionPackages } from './production-packages.ts';
import { sourceFiles } from './tree.ts';

const packages = productionPackages();
/** The manifest that the tree gets at its root, with the version. */
const WRITTEN = 'package.json';
const files = sourceFiles([...packages.map(({ location }) => location), ...GUEST_SOURCES]);

describe('what a release contains', () => {
  it('what a release contains is every package that a program of the service depends on, and none of tests', () => {
    const names = packages.map(({ name }) => name);
    for (const { name, dependencies = {} } of packages) {
      const missing = Object.keys(dependencies).filter((each) => each.startsWith('@cloche/') && !names.includes(each));
      assert.deepEqual(missing, [], name);
    }
    for (const name of ['@cloche/cli', '@cloche/setup', '@cloche/agent']) assert.ok(names.includes(name), name);
    for (const name of ['@cloche/testkit', '@cloche/bench', '@cloche/e2e']) assert.ok(!names.includes(name), name);
  });

  it('what a release contains has the program of each service, and every file that another one imports', () => {
    for (const program of Object.values(PROGRAMS)) assert.ok(files.includes(program), program);
    const sources = files.filter((file) => /\.(ts|mjs)$/.test(file) && !file.endsWith('.d.ts'));
    const missing = sources.flatMap((from) => {
      const own = importsOf(from, readFileSync(from, 'utf8')).filter(
        ({ to, isOfTypes }) => /^\./.test(to) && !isOfTypes,
      );
      return own
        .map(({ to }) => join(from, '..', to))
        .filter((path) => path !== WRITTEN && existsSync(path) && !files.includes(path));
    });
    assert.deepEqual(missing, []);
  });

  it('what a release contains has no test', () => {
    assert.deepEqual(
      files.filter((file) => /\.test\.ts$|testkit/.test(file)),
      [],
    );
  });
});
