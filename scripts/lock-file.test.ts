import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';

interface Locked {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

it('the lock file has the arm64 package beside each x64 one for Linux', () => {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Locked> };
  const names = new Set(Object.keys(packages).map((path) => path.split('node_modules/').at(-1) ?? ''));
  const wanted = Object.values(packages)
    .flatMap(({ optionalDependencies }) => Object.keys(optionalDependencies ?? {}))
    .filter((name) => /linux.*x64/.test(name));
  assert.ok(wanted.length >= 5, `${wanted.length} packages of native programs`);
  const lacking = wanted.flatMap((name) => [name, name.replace('x64', 'arm64')]).filter((name) => !names.has(name));
  assert.deepEqual(lacking, []);
});
