/** A kernel that was forked from a loaded interpreter behaves like one that was started. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { sameWithEachRuntime, skipUnless, unlessStarted } from '../support/claims.ts';
import { forkedContext, openContext } from '../support/forked-kernels.ts';
import { sharedService, type TestService } from '../support/service.ts';

const forkedIn = skipUnless('pythonKernels', 'forked');
const inPython = sameWithEachRuntime('Python code of the zygote does it, wherever the zygote forks');

let service: TestService;
/** Sandbox for tests that leave nothing in it but their contexts. */
let sandboxId: string;
before(async () => {
  if (unlessStarted.skip) return;
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

/** Opens a context in a forked kernel. */
async function forked(id = sandboxId) {
  const contextId = await forkedContext(service, id);
  const run = async (code: string, context = contextId) => service.api.run(id, code, { contextId: context });
  const output = async (code: string, context = contextId) => {
    const result = await run(code, context);
    assert.equal(result.error, undefined, JSON.stringify(result.error));
    return result.stdout.trim();
  };
  return { id, contextId, run, output };
}

/** Opens a context in a forked kernel of a new sandbox. */
async function fresh(body: Record<string, unknown> = {}) {
  return forked((await service.api.readySandbox(body)).id);
}

const FOLDER = 'import os, site; folder = site.getusersitepackages(); os.makedirs(folder, exist_ok=True)';

describe('a kernel that was forked', unlessStarted, () => {
  it('a kernel that was forked shows no library before it is imported, and then the one of the template', async () => {
    const { output } = await forked();
    assert.equal(
      await output('import sys; print([n for n in ("numpy", "pandas", "matplotlib", "calendar") if n in sys.modules])'),
      '[]',
    );
    const code =
      'import pandas, numpy.linalg; print(pandas.__spec__.name, pandas.DataFrame({"a": [1, 2]}).a.sum(), "pandas" in sys.modules)';
    assert.equal(await output(code), 'pandas 3 True');
  });

  it('a kernel that was forked prefers packages that the user had installed before', inPython, async () => {
    const { id, output } = await fresh();
    await output(`${FOLDER}; open(folder + "/pandas.py", "w").write("whose = 'own'")`);
    const next = await openContext(service, id);
    assert.equal(await output('import pandas; print(pandas.whose)', next), 'own');
  });

  it(
    'a kernel that was forked finds packages that were installed after its start and before its first cell',
    inPython,
    async () => {
      const { id } = await service.api.readySandbox();
      const folder = '/home/user/.local/lib/python3.11/site-packages';
      const install = `mkdir -p ${folder} && echo 'whose = "own"' > ${folder}/pandas.py`;
      const { command } = (await service.api.post(`/v1/sandboxes/${id}/commands`, { command: ['sh', '-c', install] }))
        .body;
      assert.equal(command.exitCode, 0);
      assert.equal((await service.api.run(id, 'import pandas; print(pandas.whose)')).stdout, 'own\n');
    },
  );

  it(
    'a kernel that was forked imports what the user has installed since its start, and extension modules that fit it',
    inPython,
    async () => {
      const { id, output } = await fresh();
      // As pip would install another version of numpy.
      await output(`${FOLDER}
import shutil
for name in ("numpy", "numpy.libs"): shutil.copytree("/usr/local/lib/python3.11/dist-packages/" + name, f"{folder}/{name}")
with open(folder + "/numpy/version.py", "a") as file: file.write("\\nversion = __version__ = '9.9.0'\\n")`);
      const code = 'import numpy, pandas; print(numpy.__version__, pandas.DataFrame({"a": [1, 3]}).a.mean())';
      const contextId = await openContext(service, id);
      for (const context of [undefined, contextId]) {
        const run = (text: string) => service.api.run(id, text, context === undefined ? {} : { contextId: context });
        assert.equal((await run(code)).stdout, '9.9.0 2.0\n');
        const { outputs } = await run('import matplotlib.pyplot as plt; plt.plot(numpy.arange(3)); plt.show()');
        assert.deepEqual(outputs.map(({ format }) => format).sort(), ['chart', 'png', 'text']);
      }
      assert.equal(await output(code), '9.9.0 2.0');
    },
  );

  it(
    'a kernel that was forked finds a folder of PYTHONPATH that was made before its first cell',
    inPython,
    async () => {
      const { id } = await service.api.readySandbox({ env: { PYTHONPATH: '/workspace/lib:/workspace/more' } });
      const contextId = await openContext(service, id);
      const make = 'mkdir -p lib more && echo "x = 1" > lib/mine.py && echo "y = 2" > more/yours.py';
      await service.api.post(`/v1/sandboxes/${id}/commands`, { command: ['sh', '-c', make] });
      const { stdout } = await service.api.run(id, 'import mine, yours; print(mine.x, yours.y)', { contextId });
      assert.equal(stdout, '1 2\n');
    },
  );

  it('a kernel that was forked prefers modules in the working directory', inPython, async () => {
    const { output } = await forked();
    await output('for name in ("calendar", "numpy"): open(name + ".py", "w").write("whose = \\"own\\"")');
    assert.equal(await output('import calendar, numpy; print(calendar.whose, numpy.whose)'), 'own own');
    await output('!rm calendar.py numpy.py');
  });

  it(
    'a kernel that was forked reads the settings of matplotlib that it finds there, and shows figures',
    inPython,
    async () => {
      const plain = await forked();
      const figure = await plain.run('import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()');
      assert.deepEqual(figure.outputs.map(({ format }) => format).sort(), ['chart', 'png', 'text']);
      const own = await forked();
      await own.output('open("matplotlibrc", "w").write("lines.linewidth: 7")');
      assert.equal(await own.output('import matplotlib; print(matplotlib.rcParams["lines.linewidth"])'), '7.0');
      await own.output('!rm matplotlibrc');
    },
  );

  it('a kernel that was forked keeps the seed that code has set when it imports more', inPython, async () => {
    const { output } = await fresh();
    const drawn = await output(
      'import numpy; numpy.random.seed(1); print(numpy.random.random()); numpy.random.seed(1)',
    );
    assert.equal(await output('import calendar, pandas, matplotlib; print(numpy.random.random())'), drawn);
  });

  it('a kernel that was forked has the environment, time zone and folder of its sandbox', async () => {
    const { id, output } = await fresh({ env: { GREETING: 'hello', TZ: 'Asia/Tokyo' } });
    const code = 'import os, time; print(os.environ["GREETING"], time.tzname[0], os.getcwd(), os.environ["HOME"])';
    assert.equal(await output(code), 'hello JST /workspace /home/user');
    assert.equal(
      await output('import subprocess; print(subprocess.check_output(["printenv", "GREETING"], text=True))'),
      'hello',
    );
    assert.equal(await output(code, await openContext(service, id)), 'hello JST /workspace /home/user');
  });

  it(
    'a kernel that was forked gives way to one that is started where a variable counts at the start of Python',
    inPython,
    async () => {
      const { id } = await service.api.readySandbox({ env: { PYTHONOPTIMIZE: '2' } });
      const contextId = await openContext(service, id);
      const { stdout } = await service.api.run(id, 'import sys; print(sys.flags.optimize)', { contextId });
      assert.equal(stdout.trim(), '2');
    },
  );

  it('a kernel that was forked is the only one of a sandbox that was asked for one', forkedIn, async () => {
    const count = `import os
def is_python(pid):
    try:
        return 'python' in os.readlink(f'/proc/{pid}/exe')
    except OSError:
        return False
print(sum(is_python(pid) for pid in os.listdir('/proc') if pid.isdigit()))`;
    await forkedContext(service, (await service.api.readySandbox()).id);
    // Uses up the pooled instances that were launched before there was a zygote.
    for (let n = 0; n < 6; n += 1) {
      const { id } = await service.api.readySandbox();
      assert.equal((await service.api.run(id, count)).stdout, '1\n');
      await service.api.delete(`/v1/sandboxes/${id}`);
    }
  });

  it('a kernel that was forked is named when it runs out of memory, and replaced', async () => {
    const { run } = await fresh({ resources: { memoryMb: 1024 } });
    const { error } = await run('x = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1');
    assert.equal(error?.name, 'OutOfMemoryError');
    assert.equal((await run('1')).stateLost, true);
  });

  it('a kernel that was forked stops at its time and keeps its variables, and is restarted', async () => {
    const { id, contextId, run } = await forked();
    await run('kept = 1');
    const late = await service.api.run(id, 'while True: pass', { contextId, timeoutMs: 300 });
    assert.equal(late.error?.name, 'TimeoutError');
    assert.equal((await run('kept')).outputs[0]?.value, '1');
    assert.equal((await service.api.post(`/v1/sandboxes/${id}/code/contexts/${contextId}/restart`)).status, 200);
    assert.equal((await run('kept')).error?.name, 'NameError');
  });

  it('a kernel that was forked may start as many threads as its processors, and no more', async () => {
    const { output } = await forked();
    await output('import numpy; numpy.ones((500, 500)) @ numpy.ones((500, 500))');
    assert.equal(
      await output('import os; print(os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))'),
      '1 2',
    );
  });
});
