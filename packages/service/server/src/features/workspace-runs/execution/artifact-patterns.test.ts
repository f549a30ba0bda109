import assert from 'node:assert/strict';
import { matchesGlob } from 'node:path';
import { describe, it } from 'node:test';
import { Random } from '@cloche/testkit/random';
import { ArtifactPattern } from './artifact-patterns.ts';

function matches(pattern: string, path: string): boolean {
  const compiled = new ArtifactPattern(pattern);
  return compiled.accepts(path.split('/').reduce((state, name) => compiled.next(state, name), compiled.start));
}

describe('a pattern of artifacts', () => {
  it('a pattern of artifacts matches as the glob of Node.js does, for all short patterns and paths', () => {
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

  it('a pattern of artifacts takes a surrogate pair as one character, and other special characters as they are', () => {
    assert.ok(matches('?.txt', '😀.txt'));
    assert.ok(matches('a+(b).txt', 'a+(b).txt'));
    assert.ok(!matches('a+', 'aa'));
  });

  it('a pattern of artifacts matches as a regular expression does, for long names and patterns of few stars', () => {
    const random = new Random(31);
    const text = (characters: string) => {
      return Array.from({ length: random.below(90) }, () => characters[random.below(characters.length)]).join('');
    };
    let matched = 0;
    for (let round = 0; round < 2_000; round += 1) {
      const parts = [text('ab??'), text('a?'), text('?')].filter(() => random.chance(0.7));
      const expression = new RegExp(`^${parts.join('.*').replaceAll('?', '.')}$`, 's');
      const name = random.chance(0.5) ? text('ab') : parts.join(text('ab')).replaceAll('?', () => text('ab')[0] ?? 'a');
      assert.equal(matches(parts.join('*'), name), expression.test(name), `${parts.join('*')} ${name}`);
      matched += Number(expression.test(name));
    }
    assert.ok(matched > 500, String(matched));
  });

  it('a pattern of artifacts of many almost matching places takes as long as another one of its length', () => {
    const name = 'a'.repeat(245);
    const timeOf = (text: string) => {
      const pattern = new ArtifactPattern(text);
      const began = process.cpuUsage().user;
      for (let round = 0; round < 2_000; round += 1) pattern.next(pattern.start, name);
      return process.cpuUsage().user - began;
    };
    const honest = `*${'x'.repeat(124)}b`;
    timeOf(honest);
    const expected = timeOf(honest);
    for (const text of [`*${'a'.repeat(124)}b`, `${'*a'.repeat(62)}b`, `${'*?'.repeat(62)}b`]) {
      const took = timeOf(text);
      assert.ok(took < 5 * expected, `${took} µs, ${expected} µs for ${honest}`);
    }
    assert.ok(!matches(`${'**/'.repeat(300)}x`, Array(64).fill('a').join('/')));
  });
});
