import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ContextId, LIMITS, type SandboxId } from '@cloche/contract';
import type { AgentOutput } from '@cloche/protocol';
import type { ContextRecord } from '../contexts/context.ts';
import { RunResult } from './run-result.ts';

const CONTEXT: ContextRecord = {
  id: 'cctx_1' as ContextId,
  sandboxId: 'sbx_1' as SandboxId,
  generation: 1,
  language: 'python',
  cwd: '/workspace',
  isDefault: true,
  timeoutMs: undefined,
  createdAt: 0,
  deletedAt: undefined,
  idempotencyRecordId: undefined,
};
const result = () => new RunResult(CONTEXT, 'run_1', 1000);
const MISBEHAVED = { name: 'AgentError', kind: 'misbehaved' };

describe('the result of a run', () => {
  it('the result of a run reports once an error that the agent sends live and in `done`', () => {
    const run = result();
    const error = { name: 'ValueError', message: 'no', traceback: ['ValueError: no'] };
    assert.deepEqual(run.take({ type: 'error', runId: 'run_1', data: error }), { type: 'error', data: error });
    const data = { executionCount: 3, durationMs: 5, error };
    assert.equal(run.take({ type: 'done', runId: 'run_1', data }), undefined);
    assert.deepEqual(run.complete().error, error);
  });

  it("the result of a run keeps an exception that is named like the service's own", () => {
    const run = result();
    const data = { name: 'TimeoutError', message: 'the socket', traceback: ['TimeoutError: the socket'] };
    run.take({ type: 'error', runId: 'run_1', data });
    assert.deepEqual(run.complete().error, data);
  });

  it('the result of a run takes output of the bound with the line that says what was cut, and no more', () => {
    const run = result();
    const half = 'x'.repeat(LIMITS.outputStreamBytes / 2);
    for (const data of [half, half, '[cut]']) run.take({ type: 'stdout', runId: 'run_1', data });
    const more = () => run.take({ type: 'stdout', runId: 'run_1', data: 'x'.repeat(5000) });
    assert.throws(more, MISBEHAVED);
    run.take({ type: 'stderr', runId: 'run_1', data: half });
  });

  it('the result of a run has a bounded number of outputs that are stored as artifacts, and says what is left out after them', async () => {
    const run = result();
    let stored = 0;
    const promote = async () => {
      stored += 1;
      return { artifactId: `art_${stored}`, sizeBytes: 1, sha256: 'x' };
    };
    const take = (value: string) => {
      const data: AgentOutput = {
        kind: 'inline',
        format: 'png',
        mimeType: 'image/png',
        value,
        role: 'display',
        bundle: 0,
      };
      return run.takePromoting({ type: 'output', runId: 'run_1', data }, promote);
    };
    for (let index = 0; index < LIMITS.promotedOutputs; index += 1) await take('eA==');
    await take('eQ==');
    await take('x'.repeat(LIMITS.inlineOutputBytes + 1));
    const [small, large] = run.complete().outputs.slice(-2);
    assert.equal(stored, LIMITS.promotedOutputs);
    assert.deepEqual(small?.kind === 'inline' && [small.format, small.value], ['png', 'eQ==']);
    assert.match(large?.value ?? '', new RegExp(`at most ${LIMITS.promotedOutputs}`));
  });

  it('the result of a run passes on no field of what was cut that the protocol does not have', () => {
    const run = result();
    const truncated = JSON.parse(`{"stdout":1,"more":${'['.repeat(200)}${']'.repeat(200)}}`);
    run.take({ type: 'done', runId: 'run_1', data: { executionCount: 1, durationMs: 1, truncated } });
    assert.deepEqual(run.complete().truncated, { stdout: 1 });
  });

  it('the result of a run bounds outputs one by one, together and in number', () => {
    const output = (value: string): AgentOutput => ({
      kind: 'inline',
      format: 'text',
      mimeType: 'text/plain',
      value,
      role: 'display',
      bundle: 0,
    });
    const take = (run: RunResult, value: string) => run.take({ type: 'output', runId: 'run_1', data: output(value) });
    assert.throws(() => take(result(), 'x'.repeat(LIMITS.inlineOutputBytes + 1)), MISBEHAVED);
    const large = result();
    for (let taken = 0; taken < 4; taken += 1) take(large, 'x'.repeat(LIMITS.inlineOutputBytes));
    assert.throws(() => [1, 2].map(() => take(large, 'x'.repeat(LIMITS.inlineOutputBytes))), MISBEHAVED);
    const many = result();
    assert.throws(() => {
      for (let taken = 0; taken < 1_000_000; taken += 1) take(many, '');
    }, MISBEHAVED);
  });

  it('the result of a run bounds what an error says, keeping the end of a traceback', () => {
    const run = result();
    const traceback = Array.from({ length: 5000 }, (_, line) => `line ${line}`);
    run.fail({ name: 'n'.repeat(10_000), message: 'm'.repeat(1_000_000), traceback });
    const { error } = run.complete();
    assert.equal(error?.name.length, 256);
    assert.equal(error?.message.length, 65_536);
    assert.equal(error?.traceback?.length, 1000);
    assert.equal(error?.traceback?.at(-1), 'line 4999');
  });
});
