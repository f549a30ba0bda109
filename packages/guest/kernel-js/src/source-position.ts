import type { SourceMap } from 'node:module';

/** Line and column, counted from 0. Columns count UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Applies `sourceMaps` in order. Returns the position in the user's code, or `undefined` for code that was added. */
export function originalPosition(sourceMaps: readonly SourceMap[], generated: Position): Position | undefined {
  let position = generated;
  for (const map of sourceMaps) {
    const entry = map.findEntry(position.line, position.column);
    if (!('originalLine' in entry)) return;
    position = { line: entry.originalLine, column: entry.originalColumn };
  }
  return position;
}
