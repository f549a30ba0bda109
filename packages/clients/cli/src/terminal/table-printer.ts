import { jsonLine } from './printable.ts';
import { type Column, type Layout, layoutOf, rowLines, titleLine } from './table.ts';
import type { Terminal } from './terminal.ts';

/**
 * Returns a function that prints blocks of rows as they arrive: a table with titles above the first row, or with `json`
 * one line of JSON for each row. Give columns fixed widths, because the first block decides on those of a terminal.
 */
export function tablePrinter<Row>(
  { terminal: { out }, json }: { readonly terminal: Terminal; readonly json: boolean },
  columns: readonly Column<Row>[],
): (rows: readonly Row[]) => Promise<void> {
  let layout: Layout | undefined;
  return async (rows) => {
    if (rows.length === 0) return;
    if (json) {
      for (const row of rows) await out.line(jsonLine(row));
      return;
    }
    if (layout === undefined) {
      layout = layoutOf(rows, columns, out);
      await out.line(titleLine(columns, layout, out));
    }
    // Where nothing is fitted to a terminal, each block has room for its own cells.
    const shown = out.isTerminal ? layout : layoutOf(rows, columns, out);
    await out.line(rowLines(rows, columns, shown, out).join('\n'));
  };
}
