import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { Gate } from '../base/gate.ts';
import { type AgentServerDeps, createAgentServer } from './agent-server.ts';

const IDLE_MS = 100;

it('unused memory is returned when the agent is idle, and not at a thaw, whose requests would wait', async () => {
  let collected = 0;
  const isWhole = (entry: unknown) => {
    const { flags } = (entry as { detail: { flags: number } }).detail;
    return (flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE) !== 0;
  };
  const observer = new PerformanceObserver((list) => {
    collected += list.getEntries().filter(isWhole).length;
  });
  observer.observe({ entryTypes: ['gc'] });
  const gate = new Gate();
  gate.close('pause');
  createAgentServer({ gate, idleMs: IDLE_MS } as unknown as AgentServerDeps);
  await delay(3 * IDLE_MS);
  assert.equal(collected, 0);
  gate.open('pause');
  await eventually(() => collected > 0, { because: 'it is idle' });
  observer.disconnect();
});
