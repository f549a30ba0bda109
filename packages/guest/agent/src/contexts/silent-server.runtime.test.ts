import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { RUN_SILENCE_MS, RUNS_KEEP_ALIVE, RUNS_UPGRADE } from '@cloche/protocol';
import { StartedAgent } from '../../testing/started-agent.ts';

const LONG_MS = 600_000;
/** Time within which the next run of the context ends, on a machine that has nothing else to do. */
const NEXT_RUN_MS = 20_000;
/** How much slower a busy machine may be. Without the watch, the next run waits for `LONG_MS`. */
const LOAD_FACTOR = 3;
const HEAD = ['GET /runs HTTP/1.1', 'host: agent', 'connection: upgrade', `upgrade: ${RUNS_UPGRADE}`, RUNS_KEEP_ALIVE];

test('the run of a server that falls silent, without closing its connection, makes way for the next one', async (t) => {
  await using agent = await StartedAgent.start();
  const contextId = await agent.open('javascript');
  const limits = { stdoutBytes: 1000, stderrBytes: 1000, outputBytes: 1000, outputsBytes: 1000 };
  const code = `console.log('begun'); await new Promise((resolve) => setTimeout(resolve, ${LONG_MS}))`;
  const silent = connect({ path: join(agent.folder, 'agent.sock'), allowHalfOpen: true });
  silent.write(`${HEAD.join('\r\n')}\r\n\r\n`);
  silent.write(`${JSON.stringify({ contextId, runId: 'run_silent', code, timeoutMs: LONG_MS, limits })}\n`);
  let received = '';
  while (!received.includes('begun')) received += (await once(silent, 'data'))[0];
  assert.ok(received.includes(RUNS_KEEP_ALIVE));
  const silentAt = performance.now();
  const next = await agent.run(contextId, '40 + 2', { timeoutMs: LONG_MS });
  assert.deepEqual(
    next.outputs.map((output) => 'value' in output && output.value),
    ['42'],
  );
  const waitedMs = performance.now() - silentAt;
  assert.ok(RUN_SILENCE_MS < NEXT_RUN_MS);
  assert.ok(waitedMs < NEXT_RUN_MS * LOAD_FACTOR, `${waitedMs} ms`);
  t.diagnostic(`the next run had ended after ${Math.round(waitedMs)} ms`);
  silent.destroy();
});
