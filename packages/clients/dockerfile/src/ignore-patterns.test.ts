import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { IgnorePatterns } from './ignore-patterns.ts';

function kept(patterns: string, ...paths: string[]): string[] {
  const ignored = new IgnorePatterns(patterns);
  return paths.filter((path) => !ignored.excludes(path));
}

// The examples of the reference of `.dockerignore`.
describe('IgnorePatterns', () => {
  it('IgnorePatterns begins each pattern at the context folder', () => {
    assert.deepEqual(kept('temp', 'temp', 'temp/x', 'a/temp', 'temporary'), ['a/temp', 'temporary']);
    assert.deepEqual(kept('/temp/\n./x\r\n', 'temp/a', 'x', 'a/x'), ['a/x']);
    assert.deepEqual(kept('*/temp*', 'a/temporary.txt', 'a/temp/x', 'temp', 'a/b/temp'), ['temp', 'a/b/temp']);
    assert.deepEqual(kept('temp?', 'tempa', 'tempab', 'temp'), ['tempab', 'temp']);
    assert.deepEqual(kept('**/*.go', 'x.go', 'a/b/x.go', 'x.goo'), ['x.goo']);
    assert.deepEqual(kept('*', '.git', '.git/config', 'a'), [], 'a leading dot is an ordinary character');
    assert.deepEqual(kept('{a,b}\n!(x)\n[ab]c', 'a', 'x', 'ac', 'bc', 'cc'), ['a', 'x', 'cc']);
  });

  it('IgnorePatterns lets the last pattern that matches decide, and exceptions count below excluded directories', () => {
    assert.deepEqual(kept('*.md\n!README.md', 'a.md', 'README.md'), ['README.md']);
    assert.deepEqual(kept('*.md\n!README*.md\nREADME-secret.md', 'README.md', 'README-secret.md'), ['README.md']);
    assert.deepEqual(kept('*.md\nREADME-secret.md\n!README*.md', 'README-secret.md'), ['README-secret.md']);
    assert.deepEqual(kept('docs\n!docs/keep', 'docs/x', 'docs/keep', 'docs/keep/y'), ['docs/keep', 'docs/keep/y']);
  });

  it('IgnorePatterns passes over comments and empty lines', () => {
    assert.deepEqual(kept('\uFEFF# a\n\n  b  \n', '# a', 'a', 'b'), ['# a', 'a']);
  });
});
