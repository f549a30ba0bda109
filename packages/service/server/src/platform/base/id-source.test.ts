import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { randomIds } from './id-source.ts';

describe('random ids', () => {
  it('random ids never come twice, and use every character of their alphabet in every place', () => {
    const ids = Array.from({ length: 5000 }, () => randomIds.next('x_'));
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^x_[0-9a-hjkmnp-tv-z]{20}$/);
    for (let place = 2; place < 22; place++) assert.equal(new Set(ids.map((id) => id[place])).size, 32);
  });
});
