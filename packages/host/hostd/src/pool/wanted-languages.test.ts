import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WantedLanguages } from './wanted-languages.ts';

test('a language is wanted for three minutes after its last use, and requested again once a minute', () => {
  let now = 0;
  const languages = new WantedLanguages(() => now);
  assert.deepEqual(languages.list(), []);
  assert.equal(languages.note('javascript'), true);
  now = 59_000;
  assert.equal(languages.note('javascript'), false);
  assert.equal(languages.note('typescript'), true);
  now = 60_000;
  assert.equal(languages.note('javascript'), true);
  now = 238_999;
  assert.deepEqual(languages.list(), ['javascript', 'typescript']);
  now = 239_000;
  assert.deepEqual(languages.list(), ['javascript']);
  now = 240_000;
  assert.deepEqual(languages.list(), []);
});
