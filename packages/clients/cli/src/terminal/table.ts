import { printable } from './printable.ts';
import type { Colors, Output } from './terminal.ts';
import { cutTo, padTo, widthOf } from './width.ts';

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  /** Receives the cell padded to the width of its column. */
  readonly style?: (cell: string, row: Row, colors: Colors) => string;
}

/** Where a table is printed. Only a table on a terminal is fitted to its width. */
export type TableOutput = Pick<Output, 'colors'> & Partial<Pick<Output, 'isTerminal' | 'columns'>>;

/** The columns that are shown, from the left, and their widths. */
export type Layout = readonly number[];

const GAP = '  ';
/** A column is not cut below these widths: the last one, which is cut first, and others. */
const MIN_LAST = 8;
const MIN_WIDTH = 20;

/**
 * Returns aligned columns with titles. Makes the cells `printable`, so that remote text cannot move the cursor. On a
 * terminal, no line is wider than it: wide cells are cut, and then columns are left out from the right.
 */
export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], to: TableOutput): string {
  const layout = layoutOf(rows, columns, to);
  return [titleLine(columns, layout, to), ...rowLines(rows, columns, layout, to)].join('\n');
}

export function layoutOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[], to: TableOutput): Layout {
  const widths = columns.map(({ title, value }) =>
    rows.reduce((width, row) => Math.max(width, widthOf(printable(value(row)))), widthOf(title)),
  );
  return to.isTerminal && to.columns !== undefined ? fitted(widths, to.columns) : widths;
}

export function titleLine(columns: readonly Column<never>[], layout: Layout, { colors }: TableOutput): string {
  const last = layout.length - 1;
  return layout
    .map((width, index) => cutTo(columns[index]?.title ?? '', width))
    .map((title, index) => colors.dim(index === last ? title : padTo(title, layout[index] ?? 0)))
    .join(GAP)
    .trimEnd();
}

export function rowLines<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  layout: Layout,
  { isTerminal, colors }: TableOutput,
): string[] {
  const last = layout.length - 1;
  return rows.map((row) =>
    layout
      .map((width, index) => {
        const { value = () => '', style = (text: string) => text } = columns[index] ?? {};
        const text = printable(value(row));
        const cell = isTerminal ? cutTo(text, width) : text;
        return style(index === last ? cell : padTo(cell, width), row, colors);
      })
      .join(GAP)
      .trimEnd(),
  );
}

/** Cuts the widest columns, and leaves out columns from the right, until the rest fits. The first one is cut last. */
function fitted(natural: readonly number[], columns: number): Layout {
  for (let shown = natural.length; shown > 1; shown -= 1) {
    const widths = natural.slice(0, shown);
    let excess = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length) - columns;
    while (excess > 0) {
      const least = (index: number) => (index === shown - 1 ? MIN_LAST : MIN_WIDTH);
      const spare = widths.map((width, index) => (index === 0 ? 0 : width - least(index)));
      const widest = spare.indexOf(Math.max(...spare));
      if ((spare[widest] ?? 0) <= 0) break;
      widths[widest] = (widths[widest] ?? 0) - 1;
      excess -= 1;
    }
    if (excess <= 0) return widths;
  }
  return [Math.min(natural[0] ?? 0, columns)];
}

/** Returns lines of names and values. */
export function fields(
  entries: readonly (readonly [name: string, value: string | undefined])[],
  { colors, isTerminal, columns = Number.POSITIVE_INFINITY }: TableOutput,
): string {
  const known = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
  const width = Math.max(...known.map(([name]) => name.length));
  const room = isTerminal ? columns - width - GAP.length : Number.POSITIVE_INFINITY;
  const lines = known.map(([name, value]) => {
    const [first = '', ...rest] = wrapped(printable(value), room);
    return [colors.dim(name.padEnd(width)) + GAP + first, ...rest.map((line) => ' '.repeat(width) + GAP + line)];
  });
  return lines.flat().join('\n');
}

/** Breaks a text between words into lines of at most `width` columns. A longer word keeps its line. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && widthOf(last) + 1 + widthOf(word) <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
