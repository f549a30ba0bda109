import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { describePython } from '../../testing/describe-python.ts';

describePython('what a Python context shows', (python) => {
  const run = (code: string) => python.agent.run(python.context, code);

  test('a Python context sends every form of what is displayed, in order with what is printed', async () => {
    const { outputs, events } = await run(
      'from IPython.display import display, HTML, Image, JSON\nprint("before")\ndisplay(HTML("<b>x</b>"))\nprint("after")\nimport math\ndisplay({"application/json": {"nan": math.nan, "list": [1, "a"]}}, raw=True)',
    );
    assert.deepEqual(
      events
        .map((event) => (event.type === 'output' ? event.data.format : event.type))
        .filter((type, index, types) => type !== types[index - 1]),
      ['stdout', 'text', 'html', 'stdout', 'json', 'done'],
    );
    assert.deepEqual(
      outputs.map(({ role, bundle }) => ({ role, bundle })),
      [
        { role: 'display', bundle: 0 },
        { role: 'display', bundle: 0 },
        { role: 'display', bundle: 1 },
      ],
    );
    assert.deepEqual(JSON.parse(outputs[2]?.value ?? ''), { nan: null, list: [1, 'a'] });
  });

  test('a Python context shows texts and numbers as IPython does', async () => {
    const { outputs } = await run(`
shown = get_ipython().display_formatter
values = [1, -5, 10**100, True, 1.5, "a", "a\\nb", "a\\u2028b\\x85", "x" * 5000, chr(0xd800), "", [1]]
[value for value in values if shown.format(value)[0] != {"text/plain": shown.formatters["text/plain"](value)}]`);
    assert.equal(outputs[0]?.value, '[]');
  });

  test('a Python context shows a number by whatever formatter the cell registers for it, or for everything', async () => {
    const formsOf = async (code: string) => {
      const { outputs } = await run(`formatters = get_ipython().display_formatter\n${code}`);
      return outputs.map(({ mimeType, value }) => [mimeType, value]);
    };
    const html = "formatters.formatters['text/html']";
    assert.deepEqual(await formsOf('7'), [['text/plain', '7']]);
    for (const kind of ['int', 'object']) {
      assert.deepEqual(await formsOf(`_ = ${html}.for_type(${kind}, lambda value: f'<b>{value}</b>')\n7`), [
        ['text/plain', '7'],
        ['text/html', '<b>7</b>'],
      ]);
      assert.deepEqual(await formsOf(`_ = ${html}.pop(${kind})\n7`), [['text/plain', '7']]);
    }
    const everywhere = 'formatters.mimebundle_formatter';
    assert.deepEqual(await formsOf(`_ = ${everywhere}.for_type(int, lambda value: {'text/x-own': 'own'})\n7`), [
      ['text/x-own', 'own'],
      ['text/plain', '7'],
    ]);
    await run(`_ = ${everywhere}.pop(int)`);
  });

  test('a Python context asks a formatter of the client for every value, whatever kind of object it is', async () => {
    const differing = await run(`
from IPython.core.formatters import BaseFormatter, DisplayFormatter
shown = get_ipython().display_formatter
class Own(BaseFormatter):
  def __call__(self, value): return "own"
differing, kept = [], dict(shown.formatters)
for change in ({"text/x-own": Own()}, {"text/x-own": lambda value: "own"}, {"text/plain": lambda value: "own"}, {"text/plain": None}):
  shown.formatters.update(change)
  for name in [name for name, formatter in shown.formatters.items() if formatter is None]: del shown.formatters[name]
  differing += [(change, value) for value in (7, "a", [1]) if shown.format(value) != DisplayFormatter.format(shown, value)]
  shown.formatters.clear(); shown.formatters.update(kept)
(differing, shown.format(7))`);
    assert.equal(differing.outputs[0]?.value, "([], ({'text/plain': '7'}, {}))", JSON.stringify(differing.done.error));
  });

  test('a Python context sends a value that a cell shows by itself before what it does next', async () => {
    const shows = ['sys.displayhook(5)', 'get_ipython().run_cell("5")', '_ = [get_ipython().run_cell("5")]'];
    for (const [index, show] of shows.entries()) {
      const shown = join(python.agent.workspace, `shown-${index}`);
      const wait = `while not os.path.exists(${JSON.stringify(shown)}): time.sleep(0.005)`;
      const seen: string[] = [];
      // In one write, so that it arrives in one piece.
      const code = `import os, sys, time\n${show}\n${wait}\nprint("6\\n", end="")\n7`;
      for await (const { type, data } of await python.agent.start(python.context, code)) {
        seen.push(type === 'output' ? data.value : type === 'stdout' ? data : type);
        writeFileSync(shown, '');
      }
      assert.deepEqual(seen, ['5', '6\n', '7', 'done'], show);
    }
  });

  test('a Python context sends pictures as base64', async () => {
    const { outputs } = await run(
      'from IPython.display import Image\nimport zlib, struct\ndef chunk(k, d): return struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d))\npng = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\\0\\0")) + chunk(b"IEND", b"")\nImage(data=png)',
    );
    const png = outputs.find(({ format }) => format === 'png');
    assert.equal(
      Buffer.from(png?.value ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
      'PNG',
    );
  });

  test('a Python context sends a DataFrame as text, HTML and bounded data', async () => {
    const { outputs } = await run(
      'import pandas as pd, numpy as np\npd.DataFrame({"n": range(5000), "x": [np.nan, np.inf] * 2500, "t": pd.Timestamp("2020-01-02")})',
    );
    assert.deepEqual(outputs.map(({ format }) => format).sort(), ['data', 'html', 'text']);
    const data = JSON.parse(outputs.find(({ format }) => format === 'data')?.value ?? '');
    assert.equal(data.rowCount, 5000);
    assert.equal(data.rows.length, 1000);
    assert.deepEqual(data.rows[1], [1, null, '2020-01-02 00:00:00']);
    assert.deepEqual(
      data.columns.map(({ name }: { name: string }) => name),
      ['n', 'x', 't'],
    );
  });

  test('says of a DataFrame’s data what it holds, however it is made', async () => {
    const frames = [
      'pd.DataFrame()',
      'pd.DataFrame(index=[1, 2])',
      'pd.DataFrame(columns=["a"])',
      'pd.DataFrame([[1, "a"], [None, "b"]], columns=pd.MultiIndex.from_tuples([("x", 1), ("x", 1)]))',
      'pd.DataFrame({"c": pd.Categorical(["a", None]), "i": pd.array([1, None], dtype="Int64"), "t": pd.to_datetime(["2020-01-02", None])})',
      'pd.DataFrame(np.zeros((2, 300)))',
    ];
    const { outputs, done } = await run(
      `import pandas as pd, numpy as np\nfrom IPython.display import display\nfor frame in (${frames}): display(frame)`,
    );
    assert.equal(done.error, undefined);
    const shown = outputs.filter(({ format }) => format === 'data').map(({ value }) => JSON.parse(value));
    const [empty, bare, named, twice, typed, wide] = shown;
    assert.deepEqual(empty, { columns: [], rows: [], rowCount: 0 });
    assert.deepEqual(bare, { columns: [], rows: [[], []], rowCount: 2 });
    assert.deepEqual(named, { columns: [{ name: 'a', type: 'object' }], rows: [], rowCount: 0 });
    assert.deepEqual(
      twice.columns.map(({ name }: { name: string }) => name),
      ['x / 1', 'x / 1'],
    );
    assert.deepEqual(twice.rows, [
      [1, 'a'],
      [null, 'b'],
    ]);
    assert.deepEqual(typed.columns.map(({ type }: { type: string }) => type).slice(0, 2), ['category', 'Int64']);
    assert.deepEqual(typed.rows, [
      ['a', 1, '2020-01-02 00:00:00'],
      [null, null, null],
    ]);
    assert.deepEqual([wide.columns.length, wide.rows.length, wide.rows[1].length], [200, 2, 200]);
  });

  test('a Python context publishes figures at the end of the cell and on show(), once each, with their data', async () => {
    const { outputs, done } = await run(
      'import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [3, 4]); plt.title("Bars")\nplt.show()\nprint("between")\nplt.plot([1, 2], [3, 4], label="line"); plt.xlabel("x")',
    );
    assert.equal(done.error, undefined);
    assert.equal(outputs.filter(({ format }) => format === 'png').length, 2);
    const charts = outputs.filter(({ format }) => format === 'chart').map(({ value }) => JSON.parse(value));
    for (const { axes } of charts) {
      for (const each of axes) {
        assert.equal(each.y.scale, 'linear');
        delete each.x;
        delete each.y;
      }
    }
    assert.deepEqual(charts, [
      { type: 'bar', axes: [{ title: 'Bars', series: [{ type: 'bar', x: ['a', 'b'], y: [3, 4] }] }] },
      { type: 'line', axes: [{ xLabel: 'x', series: [{ type: 'line', x: [1, 2], y: [3, 4], label: 'line' }] }] },
    ]);
    const again = await run('fig, ax = plt.subplots()\nax.scatter([1], [2])\nfig');
    assert.equal(again.outputs.filter(({ format }) => format === 'png').length, 1);
    assert.deepEqual((await run('plt.get_fignums()')).outputs[0]?.value, '[]');
  });

  test('a Python context takes the magics of notebooks that ask for figures inline', async () => {
    const { outputs, done, stdout } = await run(
      '%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);',
    );
    assert.equal(done.error, undefined);
    assert.equal(stdout, '');
    assert.equal(outputs.filter(({ format }) => format === 'png').length, 1);
  });

  test('a Python context replaces what is too large for the protocol', async () => {
    const { outputs, done } = await python.agent.run(
      python.context,
      'from IPython.display import display\ndisplay({"text/html": "\\x01" * 20_000_000}, raw=True); "next"',
    );
    assert.equal(done.error, undefined);
    assert.deepEqual(
      outputs.map(({ value }) => value.slice(0, 26)),
      ['[cloche: text/html output ', "'next'"],
    );
  });
});
