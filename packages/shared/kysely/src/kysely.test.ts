import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { it } from 'node:test';

it('kysely exports what the library exports', async () => {
  assert.deepEqual(Object.keys(await import('kysely')), Object.keys(await import('kysely-modules')));
  const [bundled, library] = [await import('kysely/migration'), await import('kysely-modules/migration')];
  assert.deepEqual(Object.keys(bundled), Object.keys(library));
});

it('kysely consists of few files, which a process loads quickly', () => {
  assert.ok(readdirSync(new URL('../build', import.meta.url)).length < 5);
});

it('kysely has the version of the library, by which other packages depend on it', () => {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  assert.equal(manifest.dependencies['kysely-modules'], `npm:kysely@${manifest.version}`);
});
