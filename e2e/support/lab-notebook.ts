import type { Browser, Locator, Page } from 'playwright-core';
import { STEP_MS } from './jupyterlab.ts';

/** A notebook in JupyterLab, in a page of a browser. */
export class LabNotebook {
  readonly page: Page;
  #kernel: string;

  private constructor(page: Page, kernel: string) {
    this.page = page;
    this.#kernel = kernel;
  }

  /**
   * Opens JupyterLab, and a new notebook from its launcher.
   *
   * @param kernel title of the kernel
   */
  static async open(browser: Browser, url: string, kernel: string): Promise<LabNotebook> {
    const page = await browser.newPage();
    page.setDefaultTimeout(STEP_MS);
    await page.goto(url);
    await page.click(`.jp-LauncherCard[data-category="Notebook"][title="${kernel}"]`);
    const notebook = new LabNotebook(page, kernel);
    await notebook.idle();
    return notebook;
  }

  /** Writes code into the last cell, and returns the cell. */
  async write(code: string): Promise<Locator> {
    const cells = this.page.locator('.jp-Notebook .jp-CodeCell');
    const cell = cells.nth((await cells.count()) - 1);
    await cell.locator('.cm-content').fill(code);
    return cell;
  }

  /** Writes code into the last cell and executes it, which adds another cell. Returns the cell. */
  async execute(code: string): Promise<Locator> {
    const count = await this.page.locator('.jp-Notebook .jp-CodeCell').count();
    const cell = await this.write(code);
    await this.page.keyboard.press('Shift+Enter');
    await this.page.locator('.jp-Notebook .jp-CodeCell').nth(count).waitFor();
    return cell;
  }

  /** Executes a line of code that prints, and waits until the cell shows the text. */
  async prints(code: string, text: string): Promise<void> {
    await shows(await this.execute(code), text);
  }

  /** Clicks a button of the toolbar. */
  async click(command: string): Promise<void> {
    await this.page.click(`.jp-NotebookPanel-toolbar [data-command="${command}"]`);
  }

  /** Chooses another kernel for the notebook. @param kernel its title */
  async changeKernel(kernel: string): Promise<void> {
    const { page } = this;
    await page.click('.jp-NotebookPanel-toolbar .jp-KernelName');
    await page.locator('.jp-Dialog select').selectOption({ label: kernel });
    await page.click('.jp-Dialog .jp-mod-accept');
    this.#kernel = kernel;
    await this.idle();
  }

  /** Waits until the kernel is connected and idle. */
  async idle(): Promise<void> {
    await this.page.locator('#jp-main-statusbar', { hasText: `${this.#kernel} | Idle` }).waitFor();
  }
}

/** Waits until an output of a cell has a text. */
export async function shows(cell: Locator, text: string): Promise<void> {
  await cell.locator('.jp-OutputArea-output', { hasText: text }).waitFor();
}
