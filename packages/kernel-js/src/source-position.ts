import type { SourceMap } from 'node:module';

/** Counted from 0; the column in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Follows `sourceMaps`, in order, to what the user wrote. `undefined` where nothing of the user's was. */
export function originalPosition(sourceMaps: readonly SourceMap[], generated: Position): Position | undefined {
  let position = generated;
  for (const map of sourceMaps) {
    const entry = map.findEntry(position.line, position.column);
    if (!('originalLine' in entry)) return;
    position = { line: entry.originalLine, column: entry.originalColumn };
  }
  return position;
}
