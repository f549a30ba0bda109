import assert from 'node:assert/strict';
import { it } from 'node:test';
import { withPlainExpressions } from './mime-bundle.ts';

it('the values of expressions have no forms that only Cloche has', () => {
  const own = 'application/vnd.cloche.data+json';
  const failed = { status: 'error', ename: 'E' };
  const value = { status: 'ok', data: { [own]: {}, 'text/plain': 'a' }, metadata: { [own]: {} } };
  const plain = { status: 'ok', data: { 'text/plain': 'a' }, metadata: {} };
  const reply = { status: 'ok', user_expressions: { a: value, b: failed, c: null, d: 5 } };
  assert.deepEqual(withPlainExpressions(reply), { ...reply, user_expressions: { a: plain, b: failed, c: null, d: 5 } });
  for (const other of [{}, { user_expressions: null }, { user_expressions: 'x' }])
    assert.deepEqual(withPlainExpressions(other), other);
});
