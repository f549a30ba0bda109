import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UndoStack } from './undo-stack.ts';

test('undoes in reverse order, one after the other', async () => {
  const undone: string[] = [];
  const undo = new UndoStack();
  undo.push('first', () => void undone.push('first'));
  undo.push('second', async () => {
    await Promise.resolve();
    undone.push('second');
  });
  await undo.unwind();
  assert.deepEqual(undone, ['second', 'first']);
});

test('an undo stack runs the remaining steps when one fails, and then throws which one and why', async () => {
  const undone: string[] = [];
  const undo = new UndoStack();
  undo.push('first', () => void undone.push('first'));
  undo.push('second', () => {
    throw new Error('it is stuck');
  });
  await assert.rejects(undo.unwind(), /undo second: it is stuck/);
  assert.deepEqual(undone, ['first']);
});

test('an undo stack undoes each step once', async () => {
  let times = 0;
  const undo = new UndoStack();
  undo.push('step', () => {
    times += 1;
  });
  await undo.unwind();
  await undo.unwind();
  assert.equal(times, 1);
});

test('an undo stack runs no step after keep', async () => {
  const undo = new UndoStack();
  undo.push('step', () => assert.fail('undone'));
  undo.keep();
  await undo.unwind();
});
