import { printable } from './printable.ts';
import type { Colors } from './terminal.ts';

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  /** Receives the cell padded to the width of its column. */
  readonly style?: (cell: string, row: Row) => string;
}

/** Returns aligned columns with titles. Makes the cells `printable`, so that remote text cannot move the cursor. */
export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], colors: Colors): string {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))));
  const widths = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...cells.map((line) => widthOf(line[index] ?? ''))),
  );
  const pad = (cell: string, index: number) =>
    index === columns.length - 1 ? cell : cell + ' '.repeat((widths[index] ?? 0) - widthOf(cell));
  const titles = columns.map(({ title }, index) => colors.dim(pad(title, index))).join('  ');
  const lines = cells.map((line, at) =>
    line
      .map((cell, index) => {
        const { style = (text: string) => text } = columns[index] ?? {};
        return style(pad(cell, index), rows[at] as Row);
      })
      .join('  ')
      .trimEnd(),
  );
  return [titles.trimEnd(), ...lines].join('\n');
}

/** Returns lines of names and values. */
export function fields(
  entries: readonly (readonly [name: string, value: string | undefined])[],
  colors: Colors,
): string {
  const known = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
  const width = Math.max(...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${colors.dim(name.padEnd(width))}  ${printable(value)}`).join('\n');
}

function widthOf(text: string): number {
  return [...text].length;
}
