import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { guard } from './guard.ts';

test('a failure ends its own connection and is written down, and what goes well ends nothing', async () => {
  const lines: string[] = [];
  const ended: string[] = [];
  const log = pino({}, { write: (line) => lines.push(line) });
  guard(log, Promise.resolve(), () => ended.push('good'));
  guard(log, Promise.reject(new Error('what went wrong')), () => ended.push('bad'));
  await turn();
  assert.deepEqual(ended, ['bad']);
  assert.equal(lines.length, 1);
  assert.match(lines.join(), /what went wrong/);
});
