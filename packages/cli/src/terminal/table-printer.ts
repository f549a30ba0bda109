import { jsonLine } from './printable.ts';
import { type Column, table } from './table.ts';
import type { Terminal } from './terminal.ts';

/**
 * Returns a function that prints blocks of rows as they arrive: a table with titles above the first row, or with `json`
 * one line of JSON for each row. Give columns fixed widths, so that later blocks align with the titles.
 */
export function tablePrinter<Row>(
  { terminal: { out }, json }: { readonly terminal: Terminal; readonly json: boolean },
  columns: readonly Column<Row>[],
): (rows: readonly Row[]) => Promise<void> {
  let isFirst = true;
  return async (rows) => {
    if (rows.length === 0) return;
    if (json) {
      for (const row of rows) await out.line(jsonLine(row));
      return;
    }
    const text = table(rows, columns, out.colors);
    await out.line(isFirst ? text : text.slice(text.indexOf('\n') + 1));
    isFirst = false;
  };
}
