/** Figures of matplotlib, as Jupyter's inline backend shows them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describePython } from '../../testing/describe-python.ts';

const PLOT = 'plt.plot([1, 2]);';
const PICTURES = ['png', 'svg', 'jpeg', 'pdf'];

/** Cells after a fresh start of pyplot, and the pictures that the last one shows. */
const CASES: readonly [string, readonly string[], readonly string[]][] = [
  ['the default', [PLOT], ['png']],
  ['plt.show()', [`${PLOT} plt.show()`], ['png']],
  ['another backend', ['import matplotlib; matplotlib.use("Agg")', PLOT], []],
  ['%matplotlib inline after another backend', ['plt.switch_backend("agg")', '%matplotlib inline', PLOT], ['png']],
  ['%matplotlib agg', ['%matplotlib agg', PLOT], []],
  ['%matplotlib inline twice', ['%matplotlib inline', '%matplotlib inline', PLOT], ['png']],
  ['figure_format svg', ['%config InlineBackend.figure_format = "svg"', PLOT], ['svg']],
  ['figure_formats', ['%config InlineBackend.figure_formats = set(["png", "jpeg"])', PLOT], ['jpeg', 'png']],
  [
    'set_matplotlib_formats',
    ['from matplotlib_inline.backend_inline import set_matplotlib_formats as f; f("pdf")', PLOT],
    ['pdf'],
  ],
  ['close_figures', ['%config InlineBackend.close_figures = False', PLOT, 'plt.gcf()'], ['png']],
  ['savefig without show()', [`${PLOT} plt.savefig("/tmp/cloche-figure.png")`], ['png']],
  ['a figure that is the value of the cell', ['fig, ax = plt.subplots(); ax.plot([1])\nfig'], ['png']],
];

describePython('a figure in a Python context', (python) => {
  const run = (code: string) => python.agent.run(python.context, code);
  const pictures = (outputs: readonly { format: string }[]) =>
    outputs.map(({ format }) => format).filter((format) => PICTURES.includes(format));

  const reset = `
%matplotlib inline
import matplotlib.pyplot as plt
%config InlineBackend.close_figures = True
%config InlineBackend.print_figure_kwargs = dict(bbox_inches="tight")
%config InlineBackend.figure_formats = set(["png"])
__import__("matplotlib_inline.backend_inline").backend_inline.set_matplotlib_formats("png")
plt.close("all")`;

  for (const [name, cells, expected] of CASES)
    test(`a figure in a Python context is shown as in Jupyter: ${name}`, async () => {
      assert.equal((await run(reset)).done.error, undefined);
      let last = await run('None');
      for (const cell of cells) {
        last = await run(cell);
        assert.equal(last.done.error, undefined, `${cell}: ${JSON.stringify(last.done.error)}`);
      }
      assert.deepEqual(pictures(last.outputs).sort(), expected);
    });

  test('a figure in a Python context has the size of a retina picture, and the options of print_figure_kwargs and rc', async () => {
    await run(reset);
    const width = async (setting: string) => {
      const { outputs } = await run(`${setting}\n${PLOT}`);
      return Buffer.from(outputs.find(({ format }) => format === 'png')?.value ?? '', 'base64').readUInt32BE(16);
    };
    const plain = await width('');
    // The edges are rounded to whole pixels.
    assert.ok(Math.abs((await width('%config InlineBackend.figure_format = "retina"')) - plain * 2) < 5);
    await run(reset);
    assert.equal(await width('%config InlineBackend.print_figure_kwargs = dict(bbox_inches=None)'), 640);
    await run(reset);
    assert.ok(
      (await width('%config InlineBackend.rc = dict([("figure.dpi", 50)])\n%matplotlib agg\n%matplotlib inline')) <
        plain,
    );
    await run('%config InlineBackend.rc = dict()');
  });

  test('says which backend is not there', async () => {
    for (const [magic, error] of [
      ['%matplotlib widget', 'RuntimeError'],
      ['%matplotlib qt', 'ImportError'],
      ['%matplotlib nonsense', 'RuntimeError'],
    ] as const)
      assert.equal((await run(magic)).done.error?.name, error, magic);
    assert.match((await run('%matplotlib --list')).stdout, /inline/);
    await run(reset);
  });

  test('a figure in a Python context is there for %config before matplotlib is imported', async () => {
    const context = await python.agent.open();
    const { done } = await python.agent.run(context, '%config InlineBackend.figure_format = "svg"');
    assert.equal(done.error, undefined, JSON.stringify(done.error));
    const { outputs } = await python.agent.run(context, `import matplotlib.pyplot as plt\n${PLOT}`);
    assert.deepEqual(pictures(outputs), ['svg']);
    await python.agent.call('DELETE', `/contexts/${context}`);
  });
});
