import assert from 'node:assert/strict';
import { matchesGlob } from 'node:path';
import { describe, it } from 'node:test';
import { ArtifactPattern } from './artifact-patterns.ts';

function matches(pattern: string, path: string): boolean {
  const compiled = new ArtifactPattern(pattern);
  return compiled.accepts(path.split('/').reduce((state, name) => compiled.next(state, name), compiled.start));
}

describe('a pattern of artifacts', () => {
  it('matches as the glob of Node.js does, for all short patterns and paths', () => {
    const names = ['a', '*', '?', '**', 'a*', '*b', '.a', '.*'];
    const patterns = names.flatMap((one) => [one, ...names.flatMap((two) => [`${one}/${two}`, `${one}/**/${two}`])]);
    const given = ['a', 'ab', 'b', '.a', 'aXb'];
    const paths = given.flatMap((one) => [one, ...given.flatMap((two) => [`${one}/${two}`, `${one}/b/${two}`])]);
    let matched = 0;
    for (const pattern of patterns) {
      for (const path of paths) {
        const expected = matchesGlob(path, pattern);
        assert.equal(matches(pattern, path), expected, `${pattern} ${path}`);
        matched += Number(expected);
      }
    }
    assert.ok(matched > 500, String(matched));
  });

  it('takes a surrogate pair as one character, and other special characters as they are', () => {
    assert.ok(matches('?.txt', '😀.txt'));
    assert.ok(matches('a+(b).txt', 'a+(b).txt'));
    assert.ok(!matches('a+', 'aa'));
  });

  it('with many stars takes no time that grows beyond the product of its length and that of the name', () => {
    const name = 'a'.repeat(255);
    const stepsOf = (stars: number) => {
      const began = process.cpuUsage().user;
      for (let round = 0; round < 50; round += 1) assert.ok(!matches(`${'*a'.repeat(stars)}b`, name));
      return process.cpuUsage().user - began;
    };
    stepsOf(100);
    // Backtracking over each star would take 255 to the power of the stars.
    assert.ok(stepsOf(100) < 1000 * Math.max(stepsOf(1), 1000));
    assert.ok(!matches(`${'**/'.repeat(300)}x`, Array(64).fill('a').join('/')));
  });
});
