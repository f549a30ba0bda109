/** Holds the kernel gateway to JupyterLab in a browser. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import type { Browser } from 'playwright-core';
import { findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { JupyterClient } from '../../packages/service/server/testing/jupyter-client.ts';
import { launchChromium } from '../support/chromium.ts';
import { type JupyterLab, STEP_MS, startJupyterLab } from '../support/jupyterlab.ts';
import { LabNotebook, shows } from '../support/lab-notebook.ts';
import { sharedService, type TestService } from '../support/service.ts';

const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare`';

const SLIDER = `import ipywidgets
slider = ipywidgets.IntSlider(value=7, max=100)
label = ipywidgets.Label('not moved')
slider.observe(lambda change: setattr(label, 'value', f'moved to {change.new}'), 'value')
ipywidgets.VBox([slider, label])`;

describe('in a browser, JupyterLab', { skip }, () => {
  let service: TestService;
  let jupyter: JupyterClient;
  let lab: JupyterLab;
  let browser: Browser;
  let notebook: LabNotebook;
  before(async () => {
    service = await sharedService();
    jupyter = new JupyterClient(service.url, service.apiKey);
    lab = await startJupyterLab(service);
    browser = await launchChromium(lab.url);
    notebook = await LabNotebook.open(browser, lab.url, 'Python 3 (Cloche)');
  });
  const kernels = async () => (await jupyter.get('/api/kernels')).body as { id: string; name: string }[];
  after(async () => {
    await browser?.close();
    await lab?.close();
    for (const { id } of await kernels()) await jupyter.delete(`/api/kernels/${id}`);
    await service?.close();
  });

  it('in a browser, JupyterLab runs the cells of a notebook, shows text, values, plots and errors, and saves them', async () => {
    const value = await notebook.execute('print("said")\nx = 6\nx * 7');
    await shows(value, 'said');
    await value.locator('.jp-OutputArea-executeResult', { hasText: '42' }).waitFor();
    const plot = await notebook.execute('import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()');
    const image = plot.locator('.jp-OutputArea-output img');
    await image.waitFor();
    const pixels = () => image.evaluate((element) => Reflect.get(element, 'naturalWidth') as number);
    await eventually(async () => (await pixels()) > 300, { within: STEP_MS });
    await shows(await notebook.execute('1 / 0'), 'ZeroDivisionError: division by zero');

    const saved = notebook.page.waitForResponse(
      (response) => response.request().method() === 'PUT' && /Untitled\.ipynb/.test(response.url()),
    );
    await notebook.click('docmanager:save');
    assert.equal((await saved).status(), 200);
    const { cells } = JSON.parse(readFileSync(join(lab.notebooks, 'Untitled.ipynb'), 'utf8'));
    const [first, second, third] = cells;
    assert.deepEqual(first.outputs[1].data['text/plain'], ['42']);
    assert.match(second.outputs[0].data['image/png'], /^iVBOR/);
    assert.equal(third.outputs[0].ename, 'ZeroDivisionError');
  });

  it('interrupts a cell, and the notebook keeps its variables', async () => {
    const endless = await notebook.execute('kept = 1\nprint("started")\nwhile True: pass');
    await shows(endless, 'started');
    await notebook.click('notebook:interrupt-kernel');
    await shows(endless, 'KeyboardInterrupt');
    await notebook.prints('print("kept is", kept)', 'kept is 1');
  });

  it('in a browser, JupyterLab answers input()', async () => {
    await notebook.execute('name = input("Who? ")');
    await notebook.page.fill('.jp-Stdin-input', 'Ada');
    await notebook.page.press('.jp-Stdin-input', 'Enter');
    await notebook.prints('print("Hello", name)', 'Hello Ada');
  });

  it('completes a name with Tab, and shows the help of a function with Shift and Tab', async () => {
    const { page } = notebook;
    await notebook.prints('from pathlib import PurePath\nfolder = PurePath("/a/b")\nprint("set")', 'set');
    const cell = await notebook.write('folder.as_');
    await page.keyboard.press('Tab');
    await page.locator('.jp-Completer-item', { hasText: 'as_uri' }).waitFor();
    await page.locator('.jp-Completer-item', { hasText: 'as_posix' }).click();
    await cell.locator('.cm-content', { hasText: /^folder\.as_posix$/ }).waitFor();
    await page.keyboard.press('Shift+Tab');
    await page.locator('.jp-Tooltip', { hasText: 'Return the string representation of the path' }).waitFor();
    await page.keyboard.press('Escape');
    await notebook.execute('');
  });

  it('in a browser, JupyterLab shows a widget, whose moves reach the kernel and come back from it', async () => {
    const cell = await notebook.execute(SLIDER);
    const handle = cell.locator('.noUi-handle');
    await cell.locator('.widget-label', { hasText: 'not moved' }).waitFor();
    await handle.press('ArrowRight');
    await cell.locator('.widget-label', { hasText: 'moved to 8' }).waitFor();
    await notebook.prints('print("value is", slider.value)', 'value is 8');
    await notebook.execute('slider.value = 42');
    await cell.locator('.widget-readout', { hasText: /^42$/ }).waitFor();
    assert.equal(await handle.getAttribute('aria-valuetext'), '42');
  });

  it('in a browser, JupyterLab restarts the kernel, which forgets variables and keeps files', async () => {
    await notebook.prints('open("kept.txt", "w").write("x")\nprint("written")', 'written');
    const restarted = notebook.page.waitForResponse((response) => response.url().includes('/restart'));
    await notebook.click('notebook:restart-kernel');
    await notebook.page.click('.jp-Dialog .jp-mod-accept');
    assert.equal((await restarted).status(), 200);
    await notebook.idle();
    const cell = await notebook.execute('import os\nprint("kept" in globals(), os.path.exists("kept.txt"))');
    await shows(cell, 'False True');
    await cell.locator('.jp-InputPrompt', { hasText: '[1]:' }).waitFor();
  });

  it('in a browser, JupyterLab changes the kernel of a notebook to one of another language, and ends the one before', async () => {
    const before = await kernels();
    await notebook.changeKernel('JavaScript (Cloche)');
    const cell = await notebook.execute('[1, 2].map((each) => typeof globalThis.process + each).join()');
    await cell.locator('.jp-OutputArea-executeResult', { hasText: 'object1,object2' }).waitFor();
    const after = await kernels();
    assert.deepEqual([before.length, after.length, after[0]?.name], [1, 1, 'javascript']);
    await notebook.changeKernel('Python 3 (Cloche)');
    await notebook.prints('print("kept" in globals(), 6 * 7)', 'False 42');
  });
});
