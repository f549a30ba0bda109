import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { makePythonHome } from '../../testing/python-home.ts';
import { StartedAgent } from '../../testing/started-agent.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

const packages = findPythonPackages();
const FORKED = `import os; print(b"cloche_zygote" in open(f"/proc/{os.getppid()}/cmdline", "rb").read())`;

describe('an agent that is asked to be warm', () => {
  const SLOW = 'import time; time.sleep(1.5)';

  test('an agent that is asked to be warm answers when a kernel waits that has loaded the warm imports, with the first import or without', {
    skip: packages === undefined && 'no template is built',
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-warm-'));
    chmodSync(folder, 0o755);
    const CLOCHE_PYTHON = makePythonHome(join(folder, 'python'), packages ?? '');
    const site = join(folder, 'python/lib/python3.11/site-packages');
    writeFileSync(join(site, 'slow.py'), SLOW);
    writeFileSync(join(site, 'broken.py'), `${SLOW}; raise ValueError("no")`);
    for (const [module, isLoaded] of Object.entries({ slow: 'True', broken: 'False' })) {
      await using agent = await StartedAgent.start('', {
        CLOCHE_PYTHON,
        CLOCHE_KERNELS_FOLDER: join(folder, module),
        CLOCHE_OWN_ZYGOTE: '1',
        CLOCHE_WARM_IMPORTS: module,
        PYTHONPATH: undefined,
        PYTHONDONTWRITEBYTECODE: undefined,
      });
      assert.equal((await agent.call('GET', '/spare-kernels/python')).status, 204);
      const context = await agent.open();
      assert.equal((await agent.run(context, FORKED)).stdout.trim(), 'True');
      const timed = `import time; begun = time.time()\ntry: import ${module}\nexcept ValueError: pass\ntime.time() - begun < 1`;
      assert.equal((await agent.run(context, timed)).outputs[0]?.value, isLoaded, module);
    }
    rmSync(folder, { recursive: true });
  });

  const ENVIRONMENTS: Readonly<Record<string, NodeJS.ProcessEnv>> = {
    'it forks no kernels itself': {},
    'it has no Python': { CLOCHE_OWN_ZYGOTE: '1', CLOCHE_PYTHON: '/none' },
    'its Python is no Python': { CLOCHE_OWN_ZYGOTE: '1', CLOCHE_PYTHON: '/bin/false' },
  };
  for (const [why, env] of Object.entries(ENVIRONMENTS)) {
    test(`an agent that is asked to be warm answers although ${why}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'cloche-warm-'));
      chmodSync(folder, 0o755);
      await using agent = await StartedAgent.start('', { CLOCHE_KERNELS_FOLDER: join(folder, 'kernels'), ...env });
      assert.equal((await agent.call('GET', '/spare-kernels/python')).status, 204);
      assert.equal((await agent.call('GET', '/spare-kernels/javascript')).status, 204);
      rmSync(folder, { recursive: true });
    });
  }

  test('an agent that is asked to be warm answers when a kernel waits whose Python has no IPython', {
    skip: packages === undefined && 'no template is built, whose IPython it gets',
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-warm-'));
    chmodSync(folder, 0o755);
    await using agent = await StartedAgent.start('', {
      CLOCHE_PYTHON: '/usr/bin/python3',
      CLOCHE_KERNELS_FOLDER: join(folder, 'kernels'),
      CLOCHE_OWN_ZYGOTE: '1',
      PYTHONPATH: undefined,
      PYTHONDONTWRITEBYTECODE: undefined,
    });
    await agent.call('GET', '/spare-kernels/python');
    const { stdout, outputs } = await agent.run(await agent.open(), `${FORKED}\n1 + 1`);
    assert.deepEqual([stdout, outputs[0]?.value], ['True\n', '2']);
    rmSync(folder, { recursive: true });
  });

  test('an agent that is asked to be warm answers when a context is opened meanwhile, which waits for no import', {
    skip: packages === undefined && 'no template is built',
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-warm-'));
    chmodSync(folder, 0o755);
    const CLOCHE_PYTHON = makePythonHome(join(folder, 'python'), packages ?? '');
    writeFileSync(join(folder, 'python/lib/python3.11/site-packages/endless.py'), 'import time; time.sleep(1e6)');
    await using agent = await StartedAgent.start('', {
      CLOCHE_PYTHON,
      CLOCHE_KERNELS_FOLDER: join(folder, 'kernels'),
      CLOCHE_OWN_ZYGOTE: '1',
      CLOCHE_WARM_IMPORTS: 'endless',
      PYTHONPATH: undefined,
    });
    const warm = agent.call('GET', '/spare-kernels/python');
    const { outputs } = await agent.run(await agent.open(), '1 + 1');
    assert.equal(outputs[0]?.value, '2');
    assert.equal((await warm).status, 204);
    rmSync(folder, { recursive: true });
  });
});
