import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { openText, sealText } from './sealed-text.ts';

const KEY = randomBytes(32);

describe('a sealed text', () => {
  for (const text of ['', 'a', 'ab', 'abc']) {
    it(`a sealed text of ${text.length} characters is opened as it was sealed, and in no other spelling`, () => {
      const sealed = sealText(text, KEY, 'context');
      assert.equal(openText(sealed, KEY, 'context'), text);
      for (const other of [`${sealed}x`, `${sealed}=`, ` ${sealed}`, `${sealed}\n`, sealed.slice(1), ''])
        assert.throws(() => openText(other, KEY, 'context'), JSON.stringify(other));
    });
  }

  it('a sealed text is opened with its own key and context alone', () => {
    const sealed = sealText('text', KEY, 'context');
    assert.throws(() => openText(sealed, KEY, 'another'));
    assert.throws(() => openText(sealed, randomBytes(32), 'context'));
  });
});
