/** Where the host cannot fork kernels into a sandbox, the sandbox's own zygote forks them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { skipUnless } from '../support/claims.ts';
import { forkedContext, openContext } from '../support/forked-kernels.ts';
import { sharedService, type TestService } from '../support/service.ts';

const forkedWithin = skipUnless('pythonKernels', 'forked within');

const TABLE = 'import pandas; pandas.DataFrame({"a": [1, 2]})';
/** Prints the agent's children that are zygotes; kernels have the same command line. */
const ZYGOTES = `import glob
def read(path):
    try:
        with open(path, 'rb') as file: return file.read()
    except OSError:
        return b'- 0 0'
def parent(process): return int(read(process + '/stat').rpartition(b')')[2].split()[1])
def of_agent(process): return read(f'/proc/{parent(process)}/cmdline').startswith(b'/opt/cloche/bin/node')
print(*(it[6:] for it in glob.glob('/proc/[0-9]*') if b'cloche_zygote' in read(it + '/cmdline') and of_agent(it)))`;

let service: TestService;
let sandboxId: string;
before(async () => {
  if (forkedWithin.skip) return;
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

describe('a zygote of the sandbox’s own', forkedWithin, () => {
  it('a zygote of the sandbox’s own gives a context with a table in a third of the time that a kernel takes that is started', async () => {
    // Python reads this variable only when it starts, so an interpreter that was started before would ignore it.
    const { id: slow } = await service.api.readySandbox({ env: { PYTHONOPTIMIZE: '1' } });
    await forkedContext(service, sandboxId);
    const once = async (id: string) => {
      const startedAt = performance.now();
      const contextId = await openContext(service, id);
      const { error } = await service.api.run(id, TABLE, { contextId });
      assert.equal(error, undefined);
      return performance.now() - startedAt;
    };
    const times: [number, number][] = [];
    for (let round = 0; round < 3; round++) times.push([await once(sandboxId), await once(slow)]);
    const least = (index: 0 | 1) => Math.min(...times.map((pair) => pair[index]));
    assert.ok(least(0) * 3 < least(1), JSON.stringify(times));
  });

  it('a zygote of the sandbox’s own that its user kills costs no context', async () => {
    const id = sandboxId;
    const contextId = await forkedContext(service, id);
    const [zygote = '', ...others] = (await service.api.run(id, ZYGOTES, { contextId })).stdout.trim().split(' ');
    assert.match(zygote, /^\d+$/);
    assert.deepEqual(others, []);
    await service.api.run(id, `import os; os.kill(${zygote}, 9)`, { contextId });
    for (let count = 0; count < 3; count++) {
      const next = await openContext(service, id);
      assert.equal((await service.api.run(id, '1 + 1', { contextId: next })).outputs[0]?.value, '2');
    }
    await forkedContext(service, id);
    const now = (await service.api.run(id, ZYGOTES, { contextId })).stdout.trim();
    assert.ok(now !== '' && now !== zygote);
  });

  it('a zygote of the sandbox’s own does not exist where memory is short', async () => {
    const { id } = await service.api.readySandbox({ resources: { memoryMb: 512 } });
    assert.equal((await service.api.run(id, ZYGOTES)).stdout, '\n');
    await eventually(async () => (await service.api.run(id, 'import pandas; pandas.__name__')).error === undefined);
    assert.equal((await service.api.run(id, ZYGOTES)).stdout, '\n');
  });

  it('a zygote of the sandbox’s own takes no memory from a program that needs it', async () => {
    const { id } = await service.api.readySandbox({ resources: { memoryMb: 1024 } });
    const contextId = await forkedContext(service, id);
    assert.notEqual((await service.api.run(id, ZYGOTES, { contextId })).stdout, '\n');
    await service.api.delete(`/v1/sandboxes/${id}/code/contexts/${contextId}`);
    const fill = 'x = bytearray(1000 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(len(x) >> 20)';
    const { body } = await service.api.post(`/v1/sandboxes/${id}/commands`, { command: ['python3', '-c', fill] });
    assert.deepEqual([body.command.exitCode, body.command.stdout], [0, '1000\n']);
  });
});
