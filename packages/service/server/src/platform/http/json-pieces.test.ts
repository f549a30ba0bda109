import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isLarge, jsonPieces } from './json-pieces.ts';

const MEBIBYTE = 1024 * 1024;
const VALUES: Readonly<Record<string, unknown>> = {
  'a small value': { a: 1, b: [true, null, 'x'], c: undefined },
  'a long text': 'x'.repeat(MEBIBYTE),
  'a long text of control characters': '\u0001'.repeat(MEBIBYTE),
  'characters in two halves, wherever a piece ends': `x${'😀'.repeat(MEBIBYTE / 4)}`,
  'lone surrogates': `${'\ud800'.repeat(200_000)}${'\udc00'.repeat(200_000)}`,
  'many small values': Array.from({ length: 50_000 }, (_, index) => ({ index, text: `${index}`, none: undefined })),
  'texts deep below': {
    run: { stdout: 'a"\\\n'.repeat(100_000), outputs: [{ value: 'é'.repeat(200_000) }, undefined] },
  },
  'a list of nothing': Array.from({ length: 100_000 }),
  'a text that ends with half a character': `${'x'.repeat(64 * 1024 - 1)}\ud800`,
};

describe('JSON in pieces', () => {
  for (const [title, value] of Object.entries(VALUES)) {
    it(`JSON in pieces is what JSON.stringify makes of ${title}`, () => {
      const pieces = [...jsonPieces(value)];
      assert.ok(pieces.join('') === JSON.stringify(value));
      assert.ok(Math.max(...pieces.map(({ length }) => length)) < MEBIBYTE);
    });
  }

  it('JSON in pieces is for what is large by its texts or by its number of values', () => {
    assert.equal(isLarge({ a: 'x'.repeat(200_000) }), false);
    assert.equal(isLarge({ a: ['x'.repeat(200_000), 'x'.repeat(200_000)] }), true);
    assert.equal(isLarge(Array.from({ length: 100_000 }, () => '')), true);
  });
});
