import { SourceMap } from 'node:module';
import { originalPosition } from '../source-position.ts';
import type { JavaScript } from './javascript.ts';
import { offsetOf, positionOf } from './text-offset.ts';

/** A syntax error in a cell. `offset` is its position, in UTF-16 units of the code. */
export class CellSyntaxError extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/**
 * Returns the error with its position in the user's code. `offset` is a position in `javascript`, compiled from
 * `written`.
 */
export function syntaxErrorIn(written: string, javascript: JavaScript, message: string, offset: number) {
  const maps = javascript.sourceMaps.map((map) => new SourceMap(JSON.parse(map)));
  if (maps.length === 0) return new CellSyntaxError(message, offset);
  const position = originalPosition(maps, positionOf(javascript.code, offset));
  return new CellSyntaxError(message, position ? offsetOf(written, position) : 0);
}
