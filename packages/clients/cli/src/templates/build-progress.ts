import type { TemplateBuild, TemplateBuildLogEntry } from '@cloche/contract';
import { formatDuration } from '../terminal/duration.ts';
import { printable } from '../terminal/printable.ts';
import { CLEAR_LINE, type Output } from '../terminal/terminal.ts';
import { cutTo } from '../terminal/width.ts';

/** Notes of the service that repeat what is printed anyway: the title of a step, and why the build failed. */
const REPEATED = /^(Step \d+ of \d+: |The build failed: )/;
/** Text of the service about a cached step. Cached steps are printed as one line, before the next step. */
const CACHED = /^Step \d+: cached\n$/;
const REDRAW_MS = 1000;

/**
 * Prints the steps of a build with their output and times as they happen. On a terminal, the last line shows which step
 * runs and for how long. Disposing removes that line.
 */
export class BuildProgress implements Disposable {
  readonly #output: Output;
  readonly #titles: readonly string[];
  readonly #now: () => number;
  #shown = 0;
  #startedAt: number;
  readonly #begunAt: number;
  /** Text of the progress line, without the elapsed time. */
  #running = '';
  #isDrawn = false;
  readonly #timer: NodeJS.Timeout | undefined;

  /** @param titles what steps do, in the words of the caller; the service's descriptions stand for missing ones */
  constructor(output: Output, titles: readonly string[] = [], now: () => number = performance.now.bind(performance)) {
    this.#output = output;
    this.#titles = titles;
    this.#now = now;
    this.#startedAt = now();
    this.#begunAt = this.#startedAt;
    if (output.isTerminal) this.#timer = setInterval(() => this.draw().catch(() => undefined), REDRAW_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#clear().catch(() => undefined);
  }

  /** Redraws the progress line, unless the cursor is in a line that a program has begun. */
  async draw(): Promise<void> {
    if (this.#running === '' || !(this.#isDrawn || this.#output.atLineStart)) return;
    const elapsed = formatDuration(this.#now() - this.#startedAt);
    const title = cutTo(this.#running, Math.max(1, this.#output.columns - elapsed.length - 3));
    await this.#output.write(`${CLEAR_LINE}${this.#output.colors.dim(`${title}  ${elapsed}`)}`);
    this.#isDrawn = true;
  }

  async #clear(): Promise<void> {
    if (this.#isDrawn) await this.#output.write(CLEAR_LINE);
    this.#isDrawn = false;
  }

  /** Prints an entry of the log. `steps` gives the build as it is, and is called when a step begins. */
  async add(entry: TemplateBuildLogEntry, build: () => Promise<TemplateBuild>): Promise<void> {
    if (entry.stream === 'system' && CACHED.test(entry.data)) return;
    if (entry.step > this.#shown) await this.#begin(entry.step, await build());
    await this.#clear();
    if (entry.stream === 'system' && REPEATED.test(entry.data)) return;
    const { colors } = this.#output;
    await this.#output.program(entry.stream === 'system' ? colors.dim(entry.data) : entry.data);
  }

  /** Prints the steps that had no output, and what came of the build. */
  async finish(build: TemplateBuild): Promise<void> {
    const last = build.steps.findLastIndex(({ status }) => status !== 'pending') + 1;
    if (last > this.#shown) await this.#begin(last, build);
    await this.#endStep();
    this.#running = '';
    const tookMs = this.#now() - this.#begunAt;
    if (build.status === 'succeeded' && tookMs >= 1000)
      await this.#output.line(this.#output.colors.dim(`built in ${formatDuration(tookMs)}`));
  }

  /**
   * Prints the title of step `number`, and those of the steps before it that were not printed yet; of several cached
   * ones only how many they are.
   */
  async #begin(number: number, { steps }: TemplateBuild): Promise<void> {
    await this.#endStep();
    const { colors } = this.#output;
    for (let index = this.#shown; index < number; index++) {
      const step = steps[index];
      const cached = cachedFrom(steps, index, number);
      if (cached > 1) {
        const places = `[${index + 1}-${index + cached}/${steps.length}]`;
        await this.#output.line(`${colors.bold(places)} ${colors.dim(`${cached} steps cached`)}`);
        index += cached - 1;
        continue;
      }
      const title = printable((this.#titles[index] ?? step?.description ?? '').split('\n')[0] ?? '');
      this.#running = `[${index + 1}/${steps.length}] ${title}`;
      const note = step?.status === 'cached' ? '  cached' : '';
      await this.#output.line(`${colors.bold(this.#running)}${colors.dim(note)}`);
    }
    this.#shown = number;
    this.#startedAt = this.#now();
  }

  async #endStep(): Promise<void> {
    await this.#clear();
    const elapsedMs = this.#now() - this.#startedAt;
    if (this.#shown > 0 && elapsedMs >= 1000)
      await this.#output.line(this.#output.colors.dim(formatDuration(elapsedMs)));
  }
}

/** Returns how many steps one after the other were cached, from `index` on and before `end`. */
function cachedFrom(steps: TemplateBuild['steps'], index: number, end: number): number {
  const rest = steps.slice(index, end);
  const other = rest.findIndex(({ status }) => status !== 'cached');
  return other === -1 ? rest.length : other;
}
