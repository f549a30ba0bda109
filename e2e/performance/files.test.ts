/** Asserts only ratios, as `ratios.test.ts` does. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { figuresOf } from '../../bench/src/statistics.ts';
import { type SandboxFiles, sandboxFiles } from '../support/sandbox-files.ts';
import { testService } from '../support/service.ts';

const median = (values: readonly number[]) => figuresOf(values).p50;

let files: SandboxFiles;
before(async () => {
  files = await sandboxFiles(await testService(), { diskMb: 1024 });
});
after(() => files?.close());

describe('the disk of a sandbox', () => {
  it('the disk of a sandbox gives a file the place of another as fast as one that has been taken away', async () => {
    const code = [
      'import json, os, time',
      'mebibyte, over, after = os.urandom(1 << 20), [], []',
      'def write():',
      '    with open("new", "wb", buffering=0) as file:',
      '        for _ in range(100): file.write(mebibyte)',
      'def timed(act):',
      '    began = time.perf_counter()',
      '    act()',
      '    return time.perf_counter() - began',
      'def replace(): os.rename("new", "old")',
      'def remove_first(): os.remove("old"), os.rename("new", "old")',
      'write(), replace()',
      'for _ in range(7):',
      '    write(), over.append(timed(replace))',
      '    write(), after.append(timed(remove_first))',
      'os.remove("old")',
      'print(json.dumps([over, after]))',
    ];
    const [over, after] = JSON.parse((await files.api.run(files.sandboxId, code.join('\n'))).stdout);
    const ratio = median(over) / median(after);
    assert.ok(ratio <= 3, `${ratio.toFixed(1)} times`);
  });
});
