import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertNoSetIdDumps } from './zygotes.ts';

test('no kernel is forked while processes that change their user can be traced', () => {
  assert.throws(() => assertNoSetIdDumps('1\n'), /fs\.suid_dumpable is 1/);
  for (const setting of ['0\n', '2\n']) assertNoSetIdDumps(setting);
  assertNoSetIdDumps();
});
