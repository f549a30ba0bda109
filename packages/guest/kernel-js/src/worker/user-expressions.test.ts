import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_KERNEL_FRAME_BYTES } from '@cloche/protocol';
import { UserExpressions } from './user-expressions.ts';

test('values of expressions fit into one message, and there are at most 100', () => {
  const codes = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`name${index}`, index]));
  const expressions = new UserExpressions(codes);
  const large = JSON.stringify({ 'text/plain': 'x'.repeat(MAX_KERNEL_FRAME_BYTES / 8) });
  const asked: string[] = [];
  for (let code = expressions.next(); code !== undefined; code = expressions.next()) {
    asked.push(code);
    expressions.show(large);
    expressions.end(undefined);
  }
  assert.deepEqual([asked.length, asked[0]], [100, '0']);
  const reply = expressions.reply();
  assert.ok(reply.length < MAX_KERNEL_FRAME_BYTES, `${reply.length}`);
  const { user_expressions: values } = JSON.parse(reply).content;
  assert.deepEqual([values.name0.status, values.name99.ename], ['ok', 'RangeError']);
});
