import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { DecisionLog } from '../decisions/decision-log.ts';
import { LINES_A_WINDOW } from '../decisions/line-budget.ts';
import { guard } from './guard.ts';

test('a failure ends its own connection and is written down, and what goes well ends nothing', async () => {
  const lines: string[] = [];
  const ended: string[] = [];
  const decisions = new DecisionLog(pino({}, { write: (line) => lines.push(line) }), new Registry());
  guard(decisions, 'sbx_1', Promise.resolve(), () => ended.push('good'));
  guard(decisions, 'sbx_1', Promise.reject(new Error('what went wrong')), () => ended.push('bad'));
  await turn();
  assert.deepEqual(ended, ['bad']);
  assert.equal(lines.length, 1);
  assert.match(lines.join(), /sbx_1.*what went wrong/);
});

test('failures count as lines of their sandbox, so that none fills the log', async () => {
  const lines: string[] = [];
  const decisions = new DecisionLog(pino({}, { write: (line) => lines.push(line) }), new Registry());
  const fail = (sandboxId: string) => guard(decisions, sandboxId, Promise.reject(new Error('no')), () => undefined);
  for (let count = 0; count < 3 * LINES_A_WINDOW; count += 1) fail('sbx_1');
  fail('sbx_2');
  await turn();
  assert.equal(lines.filter((line) => line.includes('sbx_1')).length, LINES_A_WINDOW);
  assert.equal(lines.filter((line) => line.includes('sbx_2')).length, 1);
  decisions.endWindow();
});
