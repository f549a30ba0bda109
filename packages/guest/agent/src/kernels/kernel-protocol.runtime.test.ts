import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PythonKernel } from '../../testing/python-kernel.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

const packages = findPythonPackages();

describe('a Python kernel', { skip: packages === undefined && 'no python-node template is built' }, () => {
  test('a Python kernel stops a cell whose interrupt comes with it, and no other', async () => {
    await using kernel = await PythonKernel.start(packages);
    for (let round = 0; round < 20; round++) {
      const runId = `endless-${round}`;
      kernel.send({ type: 'execute', runId, code: 'while True: pass' }, { type: 'interrupt', runId });
      const done = await kernel.next('done');
      assert.equal('error' in done && done.error?.name, 'KeyboardInterrupt');
      kernel.send({ type: 'interrupt', runId }, { type: 'execute', runId: `next-${round}`, code: 'None' });
      assert.ok(!('error' in (await kernel.next('done'))));
    }
  });

  test('a Python kernel keeps nothing of a warm-up cell', async () => {
    await using kernel = await PythonKernel.start(packages);
    kernel.send({ type: 'execute', runId: 'warm-up', code: 'x = 1; 2', warmUp: true });
    await kernel.next('output');
    await kernel.next('done');
    const code = '[name for name in ("x", "_", "__", "_2", "_i") if globals().get(name)]';
    kernel.send({ type: 'execute', runId: 'first', code });
    const result = await kernel.next('output');
    assert.deepEqual('forms' in result && result.forms, { 'text/plain': '[]' });
    const done = await kernel.next('done');
    assert.equal('executionCount' in done && done.executionCount, 1);
  });
});
