import type { TemplateBuild, TemplateBuildLogEntry } from '@cloche/contract';
import { formatDuration } from '../terminal/duration.ts';
import { printable } from '../terminal/printable.ts';
import type { Output } from '../terminal/terminal.ts';

/** Notes of the service that repeat what is printed anyway: the title of a step, and why the build failed. */
const REPEATED = /^(Step \d+ of \d+: |The build failed: )/;

/** Prints the steps of a build with their output and times as they happen. */
export class BuildProgress {
  readonly #output: Output;
  readonly #titles: readonly string[];
  readonly #now: () => number;
  #shown = 0;
  #startedAt: number;
  readonly #begunAt: number;

  /** @param titles what steps do, in the words of the caller; the service's descriptions stand for missing ones */
  constructor(output: Output, titles: readonly string[] = [], now: () => number = performance.now.bind(performance)) {
    this.#output = output;
    this.#titles = titles;
    this.#now = now;
    this.#startedAt = now();
    this.#begunAt = this.#startedAt;
  }

  /** Prints an entry of the log. `steps` gives the build as it is, and is called when a step begins. */
  async add(entry: TemplateBuildLogEntry, build: () => Promise<TemplateBuild>): Promise<void> {
    if (entry.step > this.#shown) await this.#begin(entry.step, await build());
    if (entry.stream === 'system' && REPEATED.test(entry.data)) return;
    const { colors } = this.#output;
    await this.#output.program(entry.stream === 'system' ? colors.dim(entry.data) : entry.data);
  }

  /** Prints the steps that had no output, and what came of the build. */
  async finish(build: TemplateBuild): Promise<void> {
    const last = build.steps.findLastIndex(({ status }) => status !== 'pending') + 1;
    if (last > this.#shown) await this.#begin(last, build);
    await this.#endStep();
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
      const note = step?.status === 'cached' ? '  cached' : '';
      await this.#output.line(`${colors.bold(`[${index + 1}/${steps.length}] ${title}`)}${colors.dim(note)}`);
    }
    this.#shown = number;
    this.#startedAt = this.#now();
  }

  async #endStep(): Promise<void> {
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
