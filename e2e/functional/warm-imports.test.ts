/** Modules that a template of an organization has its kernels load before code imports them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TemplateRecipe } from '@cloche/contract';
import { type OwnService, testService } from '../support/service.ts';

const MODULES = '/usr/local/lib/python3.11/dist-packages';
/** Seconds that the module takes to load, far more than a module that is loaded already. */
const LOADING_S = 2;

/** Prints whether the kernel was forked from a zygote of the sandbox. */
const FORKED = 'import os; print("cloche_zygote" in open(f"/proc/{os.getppid()}/cmdline").read())';

// Its own, because tests that share a service take the places of the pool from each other.
let service: OwnService;
before(async () => {
  service = await testService({ CLOCHE_POOL_SIZE: '4' });
});
after(() => service?.close());

async function logOf(templateId: string, buildId: string): Promise<string> {
  const { body } = await service.api.get(`/v1/templates/${templateId}/builds/${buildId}/logs?limit=1000`);
  return body.data.map(({ data }: { data: string }) => data).join('');
}

/** Builds a template with a module that its kernels load ahead. Returns the log of the build. */
async function build(slug: string, module: string): Promise<string> {
  const recipe: TemplateRecipe = {
    from: 'python-node',
    files: [{ path: `${MODULES}/loaded_ahead.py`, content: module, mode: '0644' }],
    warm: { imports: ['loaded_ahead'] },
    resources: { memoryMb: 1024 },
  };
  const { body } = await service.api.post('/v1/templates', { slug, ...recipe });
  const { templateId, id } = body.build;
  for (let build = body.build; ; ) {
    if (build.finishedAt !== undefined) {
      assert.equal(build.status, 'succeeded', JSON.stringify(build));
      return logOf(templateId, id);
    }
    build = (await service.api.get(`/v1/templates/${templateId}/builds/${id}?waitMs=60000`)).body.build;
  }
}

describe('warm imports of a template', () => {
  it('warm imports of a template are loaded when a build has succeeded, for the first run of a sandbox', async () => {
    const log = await build('warm', `import time\ntime.sleep(${LOADING_S})\nVALUE = 42\n`);
    assert.doesNotMatch(log, /warm\.imports/);
    const { id } = await service.api.readySandbox({ template: 'warm' });
    const code =
      'import time; begun = time.time()\nimport loaded_ahead\nprint(loaded_ahead.VALUE, time.time() - begun)';
    const { stdout, error } = await service.api.run(id, code);
    assert.equal(error, undefined);
    const [value, seconds] = stdout.trim().split(' ').map(Number);
    assert.equal(value, 42);
    assert.ok((seconds ?? LOADING_S) < LOADING_S / 4, stdout);
  });

  it('warm imports of a template that cannot be loaded are left out, and kernels are forked without them', async () => {
    const log = await build('broken', 'raise ValueError("not today")\n');
    assert.match(log, /^warm\.imports have no effect.*: loaded_ahead: ValueError: not today$/m);
    const { id } = await service.api.readySandbox({ template: 'broken' });
    const { stdout, error } = await service.api.run(id, `${FORKED}\nimport loaded_ahead`);
    assert.equal(stdout, 'True\n');
    assert.equal(error?.name, 'ValueError');
    assert.equal((await service.api.run(id, '1 + 1')).outputs[0]?.value, '2');
  });
});
