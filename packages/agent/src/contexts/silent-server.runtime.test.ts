import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { RUNS_KEEP_ALIVE, RUNS_UPGRADE } from '@cloche/protocol';
import { StartedAgent } from '../testing/started-agent.ts';

const LONG_MS = 600_000;
const HEAD = ['GET /runs HTTP/1.1', 'host: agent', 'connection: upgrade', `upgrade: ${RUNS_UPGRADE}`, RUNS_KEEP_ALIVE];

test('the run of a server that falls silent, without closing its connection, makes way for the next one', async () => {
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
  const next = await agent.run(contextId, '40 + 2', { timeoutMs: LONG_MS });
  assert.deepEqual(
    next.outputs.map((output) => 'value' in output && output.value),
    ['42'],
  );
  silent.destroy();
});
