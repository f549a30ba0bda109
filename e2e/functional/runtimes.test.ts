import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { cachePaths } from '@cloche/layout';
import { testService } from '../support/service.ts';

const { runsc } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
const RUNTIMES = ['crun', 'runc', ...(existsSync(runsc) ? ['runsc'] : [])];

describe('CLOCHE_OCI_RUNTIME', () => {
  for (const runtime of RUNTIMES) {
    it(`CLOCHE_OCI_RUNTIME selects the runtime of containers: ${runtime}`, async () => {
      await using service = await disposable(runtime);
      const { id } = await service.api.readySandbox({ networkPolicy: { mode: 'deny-all' } });
      const { stdout } = await service.api.run(id, 'print(open("/proc/version").read())');
      assert.equal(stdout.includes(`Linux version ${release()} `), runtime !== 'runsc', stdout);
      // Each runtime keeps its state in a folder of its own.
      const keeping = ['crun', 'runc', 'runsc'].filter((name) => keeps(join(service.runDir, 'hostd', name), id));
      assert.deepEqual(keeping, [runtime]);
    });
  }

  it('CLOCHE_OCI_RUNTIME that names a runtime which this host lacks launches nothing, not even with another runtime', async () => {
    await using service = await disposable('nosuchruntime');
    const { sandbox } = (await service.api.post('/v1/sandboxes')).body;
    const got = await service.api.get(`/v1/sandboxes/${sandbox.id}?waitFor=ready&waitMs=30000`);
    assert.equal(got.body.sandbox.status, 'failed');
  });
});

async function disposable(runtime: string) {
  const service = await testService({ CLOCHE_OCI_RUNTIME: runtime });
  return Object.assign(service, { [Symbol.asyncDispose]: () => service.close() });
}

function keeps(folder: string, sandboxId: string): boolean {
  return existsSync(folder) && readdirSync(folder).some((name) => name.includes(sandboxId));
}
