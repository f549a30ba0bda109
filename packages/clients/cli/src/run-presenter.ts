import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
  type CodeExecutionError,
  type CodeOutput,
  type CodeRun,
  type CodeRunEvent,
  type OutputFormat,
  outputBytes,
} from '@cloche/sdk';
import { saveFile } from './copy/save-file.ts';
import { OutputDrawer, type PictureChoice } from './pictures/output-drawer.ts';
import { drawTable } from './terminal/data-table.ts';
import { jsonLine, printable } from './terminal/printable.ts';
import type { Terminal } from './terminal/terminal.ts';
import { formatBytes } from './terminal/transfer-bar.ts';

/** Formats that can be printed. Of several formats of one value, the first in this list is printed. */
const READABLE: readonly OutputFormat[] = ['text', 'markdown', 'json', 'latex', 'html', 'svg', 'javascript'];
const EXTENSION_OF: Readonly<Partial<Record<OutputFormat, string>>> = {
  markdown: 'md',
  latex: 'tex',
  javascript: 'js',
  chart: 'chart.json',
  data: 'data.json',
};

export interface PresenterOptions {
  /** Folder for rich outputs. */
  readonly saveDir?: string | undefined;
  /** Prints one line of JSON per event instead of text for people. */
  readonly asJson?: boolean;
  readonly images?: PictureChoice | undefined;
}

/** Prints the events of a run as they arrive: stdout, stderr, and other outputs as readable text. */
export class RunPresenter {
  readonly #terminal: Terminal;
  readonly #saveDir: string | undefined;
  readonly #asJson: boolean;
  /** Outputs of the current bundle, which is printed when it is complete. */
  #bundle: CodeOutput[] = [];
  #saved = 0;
  readonly #drawer: OutputDrawer;

  constructor(terminal: Terminal, { saveDir, asJson = false, images = 'auto' }: PresenterOptions) {
    this.#terminal = terminal;
    this.#saveDir = saveDir;
    this.#asJson = asJson;
    this.#drawer = new OutputDrawer(terminal.out, images);
  }

  async present(event: CodeRunEvent): Promise<void> {
    const { out, err } = this.#terminal;
    if (this.#asJson) await out.line(jsonLine(event));
    if (event.type !== 'output' || event.data.bundle !== this.#bundle[0]?.bundle) await this.#presentBundle();
    if (event.type === 'output') this.#bundle.push(event.data);
    if (this.#asJson) return;
    if (event.type === 'stdout') await out.program(event.data);
    if (event.type === 'stderr') await err.program(event.data);
    if (event.type !== 'complete') return;
    await this.#presentEnd(event.data);
    await Promise.all([out.endProgram(), err.endProgram()]);
  }

  async #presentEnd({ error, stateLost }: CodeRun): Promise<void> {
    const { err } = this.#terminal;
    if (stateLost)
      await err.line(err.colors.yellow('The kernel was replaced before this run: earlier variables are gone.'));
    if (error && exitCodeOf(error) === undefined) await err.programLine(describeError(error, err.colors.red));
  }

  async #presentBundle(): Promise<void> {
    const bundle = this.#bundle;
    this.#bundle = [];
    if (bundle.length === 0) return;
    const readable = READABLE.map((format) => bundle.find((output) => output.format === format)).find(Boolean);
    const pictures = bundle.filter((output) => isPicture(output.format));
    // The text beside a picture only says that there is a picture.
    if (readable?.value !== undefined && pictures.length === 0 && !this.#asJson)
      await this.#presentReadable(readable.value, bundle);
    const isDrawn = !this.#asJson && (await this.#drawer.draw(bundle));
    // The picture first, whose name is printed in full.
    const files = [...pictures, ...bundle.filter((output) => output.format !== 'text' && !pictures.includes(output))];
    if (this.#saveDir !== undefined && files.length > 0) await this.#save(files, this.#saveDir);
    else if (!isDrawn)
      for (const picture of pictures) await this.#note(`${describeOutput(picture)}; use --save-outputs DIR to save it`);
  }

  /** Prints text; on a terminal, a table from its data, because its text has the width of another terminal. */
  async #presentReadable(text: string, bundle: readonly CodeOutput[]): Promise<void> {
    const { out } = this.#terminal;
    const data = out.isTerminal ? bundle.find(({ format }) => format === 'data')?.value : undefined;
    const drawn = data === undefined ? undefined : drawTable(data, text, out);
    await (drawn === undefined ? out.programLine(text) : out.line(drawn));
  }

  async #save(outputs: readonly CodeOutput[], folder: string): Promise<void> {
    this.#saved += 1;
    const names: string[] = [];
    for (const output of outputs) {
      if (output.kind === 'artifact') {
        await this.#note(`${describeOutput(output)}; kept as artifact ${output.artifactId}`);
        continue;
      }
      const extension = EXTENSION_OF[output.format] ?? output.format;
      const file = join(folder, `output-${this.#saved}.${extension}`);
      // SECURITY: an existing link of that name is replaced, not followed; a sandbox may have created it
      // (hostile-text.test.ts).
      await saveFile(file, Readable.from([outputBytes(output)]), { replace: true });
      names.push(names.length === 0 ? `${describeOutput(output)}; saved to ${file}` : `.${extension}`);
    }
    const [first, ...more] = names;
    if (first !== undefined) await this.#note(more.length === 0 ? first : `${first} (and ${more.join(', ')})`);
  }

  async #note(text: string): Promise<void> {
    const { err } = this.#terminal;
    if (!this.#asJson) await err.line(err.colors.dim(printable(text)));
  }
}

/** Returns the exit code of code that ended itself with one, as `sys.exit(3)` does; undefined for other errors. */
export function exitCodeOf({ name, message }: CodeExecutionError): number | undefined {
  if (name !== 'SystemExit') return undefined;
  if (message === '' || message === 'None') return 0;
  return /^-?\d{1,9}$/.test(message) ? Number(message) & 0xff : undefined;
}

function describeError({ name, message, traceback }: CodeExecutionError, red: (text: string) => string): string {
  const summary = message === '' ? name : `${name}: ${message}`;
  const lines = traceback ?? [];
  // Most tracebacks already end with the summary.
  return lines.at(-1)?.trim().startsWith(name) ? lines.join('\n') : [...lines, red(summary)].join('\n');
}

function isPicture(format: OutputFormat): boolean {
  return ['png', 'jpeg', 'gif', 'svg', 'pdf'].includes(format);
}

/** Returns a description such as `png, 12.3 KiB`. */
function describeOutput(output: CodeOutput): string {
  const sizeBytes = output.sizeBytes ?? outputBytes(output).length;
  return `${output.format}, ${formatBytes(sizeBytes)}`;
}
