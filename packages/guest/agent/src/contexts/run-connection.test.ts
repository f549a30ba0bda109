import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { type Duplex, duplexPair } from 'node:stream';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { RUN_SILENCE_MS, RUNS_ACCEPTED, RUNS_ACCEPTED_KEPT } from '@cloche/protocol';
import type { ContextRegistry } from './context-registry.ts';
import type { Run } from './run.ts';
import { serveRuns } from './run-connection.ts';

const KEPT_ALIVE = { 'cloche-keep-alive': 'runs' };
const START = {
  contextId: 'cctx_1',
  runId: 'run_1',
  code: 'x',
  timeoutMs: 600_000,
  limits: { stdoutBytes: 1, stderrBytes: 1, outputBytes: 1, outputsBytes: 1 },
};

describe('a connection for runs', () => {
  let server: Duplex;
  /** The end of the connection in the sandbox. */
  let agent: Duplex;
  /** Emits `run` with each run that starts, and `abandoned`. */
  let context: EventEmitter;

  beforeEach(() => {
    mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    [server, agent] = duplexPair();
    context = new EventEmitter();
  });
  afterEach(() => {
    mock.timers.reset();
    server.destroy();
    agent.destroy();
  });

  async function open(headers: Record<string, string>): Promise<string> {
    const submit = (run: Run) => {
      const abandoned = () => context.emit('abandoned');
      run.watch({ timedOut: () => undefined, relieved: () => undefined, abandoned });
      context.emit('run', run);
    };
    // Sound: a connection reads only these fields of its request, and asks the registry for contexts alone.
    const contexts = { get: () => ({ submit }) } as unknown as ContextRegistry;
    const request = { url: '/runs', headers } as never;
    await serveRuns(contexts, { touch: () => undefined } as never)(request, agent, Buffer.alloc(0));
    const [response] = await once(server, 'data');
    return String(response);
  }

  async function send(text: string): Promise<void> {
    const arrived = once(agent, 'data');
    server.write(text);
    await arrived;
  }

  async function startRun(): Promise<Run> {
    const started = once(context, 'run');
    await send(`${JSON.stringify(START)}\n`);
    const [run] = await started;
    return run;
  }

  it('a connection for runs is closed, which ends its run, when the server has fallen silent', async () => {
    assert.equal(await open(KEPT_ALIVE), RUNS_ACCEPTED_KEPT);
    await startRun();
    const abandoned = once(context, 'abandoned');
    mock.timers.tick(RUN_SILENCE_MS);
    await abandoned;
    assert.ok(agent.destroyed);
  });

  it('a connection for runs stays while the server sends empty lines, and carries the next run after one that came late', async () => {
    await open(KEPT_ALIVE);
    const run = await startRun();
    for (let third = 0; third < 12; third += 1) {
      mock.timers.tick(RUN_SILENCE_MS / 3);
      await send('\n');
    }
    assert.ok(!run.ended && !agent.destroyed);
    run.finish({ executionCount: 1 });
    await send('\n');
    mock.timers.tick(10 * RUN_SILENCE_MS);
    assert.notEqual(await startRun(), run);
    assert.ok(!agent.destroyed);
  });

  it('a connection for runs is not watched for a client that sends no empty lines, as the warm-up', async () => {
    assert.equal(await open({}), RUNS_ACCEPTED);
    const run = await startRun();
    mock.timers.tick(10 * RUN_SILENCE_MS);
    assert.ok(!run.ended && !agent.destroyed);
  });

  it('a connection for runs is closed by anything but empty lines during a run', async () => {
    await open(KEPT_ALIVE);
    await startRun();
    await send('\nx');
    assert.ok(agent.destroyed);
  });
});
