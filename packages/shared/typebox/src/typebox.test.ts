import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

describe('typebox', () => {
  it('typebox exports what the library exports', async () => {
    assert.deepEqual(Object.keys(await import('typebox')), Object.keys(await import('typebox-modules')));
    assert.deepEqual(Object.keys(await import('typebox/value')), Object.keys(await import('typebox-modules/value')));
    assert.deepEqual(
      Object.keys(await import('typebox/compile')),
      Object.keys(await import('typebox-modules/compile')),
    );
  });

  it('consists of few files, which a process loads quickly', () => {
    assert.ok(readdirSync(new URL('../build', import.meta.url)).length < 10);
  });

  it('typebox has the version of the library, by which other packages depend on it', () => {
    assert.equal(manifest.dependencies['typebox-modules'], `npm:typebox@${manifest.version}`);
  });
});
