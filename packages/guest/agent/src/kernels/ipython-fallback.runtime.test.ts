/** Kernels of a Python whose own IPython is missing, or does not suffice. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { StartedAgent } from '../../testing/started-agent.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

const packages = findPythonPackages() ?? '';
const skip = packages === '' && 'no template is built, whose IPython is the fallback';

/** Prints where a module comes from. */
const whence = (module: string) =>
  `import ${module}; print("fallback" if "/python/ipython/" in ${module}.__file__ else ${module}.__file__)`;

interface Kind {
  /** Files of a folder on the path. */
  readonly files: Readonly<Record<string, string>>;
  /** Packages that the folder shares with a template. */
  readonly links?: readonly string[];
  /** Cells with what they print, show or raise. */
  readonly cells: readonly (readonly [string, RegExp])[];
}

const KINDS: Readonly<Record<string, Kind>> = {
  'nothing of IPython': {
    files: {},
    cells: [
      [whence('IPython'), /^fallback$/],
      ['1 + 1', /^2$/],
      ['from IPython.display import HTML; HTML("<b>x</b>")', /<b>x<\/b>/],
      ['import asyncio; await asyncio.sleep(0, 5)', /^5$/],
      ['def fails(): 1 / 0\nfails()', /ZeroDivisionError: division by zero/],
      ['files = !echo a b\nfiles', /a b/],
      ['%timeit -n1 -r1 None', /1 loop/],
      ['import jedi; [each.name for each in jedi.Interpreter("import js", [{}]).complete()]', /'json'/],
      ['import matplotlib', /ModuleNotFoundError: No module named 'matplotlib'/],
      ['import sys; sys.path[-1].endswith("/python/ipython")', /^True$/],
      ['import importlib.metadata; importlib.metadata.version("ipython")', /^'\d+/],
      [
        'import subprocess, sys; subprocess.run([sys.executable, "-c", "import IPython"], capture_output=True).returncode',
        /^1$/,
      ],
      ['import multiprocessing as m; m.get_context("fork").Process(target=print).start()', /^$/],
    ],
  },
  'an IPython that is broken': {
    files: { 'IPython/__init__.py': 'raise RuntimeError("half installed")' },
    cells: [
      [whence('IPython'), /^fallback$/],
      ['%pwd', /\//],
    ],
  },
  'an IPython without its parts': {
    files: { 'IPython/__init__.py': '' },
    cells: [[whence('IPython'), /^fallback$/]],
  },
  'an IPython that is too old': {
    files: {
      'IPython/__init__.py': 'version_info = (7, 34, 0)',
      ...Object.fromEntries(
        ['__init__', 'interactiveshell', 'autocall', 'formatters'].map((name) => [`IPython/core/${name}.py`, '']),
      ),
    },
    cells: [
      [whence('IPython'), /^fallback$/],
      ['_ = get_ipython(); type(_).__name__', /ZMQInteractiveShell/],
    ],
  },
  'packages that do not fit IPython': {
    files: { 'traitlets/__init__.py': 'VERSION = 4', 'pygments/__init__.py': '__version__ = "1.0"' },
    cells: [
      [whence('traitlets'), /^fallback$/],
      ['1 / 0', /ZeroDivisionError/],
      ['import sys; sys.path[-1].endswith("/python/ipython")', /^True$/],
    ],
  },
  'a package of its own that fits': {
    files: {},
    links: ['pure_eval', 'traitlets'],
    cells: [
      [whence('pure_eval'), /own-packages/],
      [whence('traitlets'), /own-packages/],
      [whence('IPython'), /^fallback$/],
    ],
  },
  'no OpenSSL, SQLite or readline': {
    files: { 'sitecustomize.py': 'import sys\nfor name in ("_ssl", "_sqlite3", "readline"): sys.modules[name] = None' },
    cells: [
      ['import ssl', /ImportError|ModuleNotFoundError/],
      ['1 + 1', /^2$/],
    ],
  },
};

describe('a Python that has', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-own-packages-'));
  before(() => chmodSync(folder, 0o755));
  after(() => rmSync(folder, { recursive: true }));

  for (const [index, [kind, { files, links = [], cells }]] of Object.entries(KINDS).entries()) {
    test(`${kind} runs cells`, async () => {
      const own = join(folder, String(index));
      mkdirSync(own);
      for (const name of links) symlinkSync(join(packages, name), join(own, name));
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(own, name)), { recursive: true });
        writeFileSync(join(own, name), text);
      }
      await using agent = await StartedAgent.start(own);
      const context = await agent.open();
      for (const [code, expected] of cells) {
        const { stdout, outputs, done } = await agent.run(context, code);
        const raised = done.error && `${done.error.name}: ${done.error.message}`;
        const shown = raised ?? (stdout || outputs.map(({ value }) => value).join('\n'));
        assert.match(shown.trim(), expected, code);
      }
    });
  }

  test('an IPython of its own that suffices runs cells by that', async () => {
    await using agent = await StartedAgent.start(packages);
    const { stdout } = await agent.run(await agent.open(), whence('IPython'));
    assert.equal(stdout.trim(), join(packages, 'IPython/__init__.py'));
  });

  test('no IPython and is older than the fallback is refused, and the reason says what helps', async () => {
    const own = join(folder, 'older');
    mkdirSync(own);
    writeFileSync(join(own, 'sitecustomize.py'), 'import sys; sys.version_info = (3, 9, 18, "final", 0)');
    await using agent = await StartedAgent.start(own);
    const open = { language: 'python', cwd: agent.workspace, timeoutMs: 30_000 };
    const { status, body } = await agent.call('PUT', '/contexts/one', open);
    assert.equal(status, 409);
    assert.match(JSON.stringify(body), /Python 3\.9 needs IPython .*No module named 'IPython'.*pip install ipython/);
  });
});
