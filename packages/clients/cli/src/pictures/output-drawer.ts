import { type CodeOutput, outputBytes } from '@cloche/sdk';
import { Option } from 'commander';
import type { Output } from '../terminal/terminal.ts';
import { drawChart } from './chart-drawing.ts';
import { drawn, type PictureProtocol, protocolOf } from './inline-picture.ts';

const CHOICES = ['auto', 'kitty', 'iterm2', 'chart', 'never'] as const;
export type PictureChoice = (typeof CHOICES)[number];
/** Pictures of one run that are drawn. */
const MAX_PICTURES = 20;

/** Returns the option for how pictures are shown. */
export function imagesOption(): Option {
  const text = 'draw pictures by this protocol, or plots from their data (default: as the terminal can)';
  return new Option('--images <how>', text).choices(CHOICES);
}

/** Draws the pictures of a run on a terminal. */
export class OutputDrawer {
  readonly #output: Output;
  readonly #protocol: PictureProtocol;
  readonly #drawsCharts: boolean;
  #count = 0;

  constructor(output: Output, choice: PictureChoice) {
    this.#output = output;
    const isForced = choice === 'kitty' || choice === 'iterm2';
    // Pipes and files get no pictures unless they are asked for.
    const found = choice === 'auto' && output.isTerminal ? protocolOf(process.env) : 'none';
    this.#protocol = isForced ? choice : found;
    this.#drawsCharts = choice === 'chart' || (choice === 'auto' && output.isTerminal && process.env.TERM !== 'dumb');
  }

  /** Draws one of the outputs of a value; resolves with whether it did. */
  async draw(bundle: readonly CodeOutput[]): Promise<boolean> {
    if (this.#count >= MAX_PICTURES) return false;
    const text = this.#drawingOf(bundle);
    if (text === undefined) return false;
    this.#count += 1;
    await this.#output.line(text);
    return true;
  }

  #drawingOf(bundle: readonly CodeOutput[]): string | undefined {
    const inline = bundle.filter(({ kind, value }) => kind === 'inline' && value !== undefined);
    for (const output of inline.filter(({ format }) => format === 'png' || format === 'jpeg')) {
      const sequence = drawn(Buffer.from(outputBytes(output)), this.#protocol);
      if (sequence !== undefined) return sequence.trimEnd();
    }
    const chart = this.#drawsCharts ? inline.find(({ format }) => format === 'chart') : undefined;
    return chart?.value === undefined ? undefined : drawChart(chart.value, this.#output.columns)?.join('\n');
  }
}
