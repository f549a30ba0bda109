import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '@cloche/kit';
import { keyOf } from './client-of.ts';

const spelled = (key: string) => `e2b_${Buffer.from(key).toString('hex')}`;

describe('the key of a request', () => {
  for (const key of ['clk_abc', 'chosen-by~an-operator', 'e2b_0123', `e2b_${'0'.repeat(40)}`, 'e2b_616', 'e2b_']) {
    it(`${key} is that key, in a header of either kind`, () => {
      assert.equal(keyOf({ headers: { 'x-api-key': key } }), key);
      assert.equal(keyOf({ headers: { authorization: `Bearer ${key}` } }), key);
    });
  }

  it('the key of a request may be written as E2B writes its own, in hexadecimal digits', () => {
    for (const key of ['clk_abc', 'a', '!~', 'e2b_ffff']) {
      assert.equal(keyOf({ headers: { 'x-api-key': spelled(key) } }), key);
      assert.equal(keyOf({ headers: { authorization: `Bearer ${spelled(key)}` } }), key);
    }
  });

  it('the key of a request is never one that a header could not contain', () => {
    for (const text of ['a b', 'a\r\nx: y', 'ä', '\u007f'])
      assert.equal(keyOf({ headers: { 'x-api-key': spelled(text) } }), spelled(text));
  });

  it('the key of a request is needed', () => {
    assert.throws(() => keyOf({ headers: {} }), GatewayError);
  });
});
