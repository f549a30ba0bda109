import type { Position } from '../source-position.ts';

/** Returns an offset in UTF-16 units, like all offsets here. */
export function offsetOf(text: string, { line, column }: Position): number {
  const before = text.split('\n').slice(0, line);
  return before.reduce((offset, { length }) => offset + length + 1, 0) + column;
}

export function positionOf(text: string, offset: number): Position {
  const before = text.slice(0, offset).split('\n');
  return { line: before.length - 1, column: before.at(-1)?.length ?? 0 };
}

/** Returns how many UTF-16 units the first `bytes` bytes of `text` in UTF-8 have. */
export function utf16Length(text: string, bytes: number): number {
  return Buffer.from(text).toString('utf8', 0, bytes).length;
}
