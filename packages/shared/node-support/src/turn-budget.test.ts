import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { TurnBudget } from './turn-budget.ts';

test('a budget lets work proceed until a turn is spent, and pays debts with later turns', async () => {
  const budget = new TurnBudget(10);
  const done: string[] = [];
  budget.spend(4, () => done.push('a'));
  budget.spend(30, () => done.push('b'));
  budget.spend(1, () => done.push('c'));
  assert.deepEqual(done, ['a', 'b']);
  // 24 are owed; each turn pays ten.
  await turn();
  await turn();
  assert.deepEqual(done, ['a', 'b']);
  await turn();
  assert.deepEqual(done, ['a', 'b', 'c']);
});
