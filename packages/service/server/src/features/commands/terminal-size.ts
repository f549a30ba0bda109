import { LIMITS } from '@cloche/contract';
import type { TerminalSize } from '@cloche/protocol';

/** Returns the size that a terminal gets: 0 is the default, as of a client without a size, and too many are cut. */
export function terminalSize({ cols = 0, rows = 0 }: { cols?: number; rows?: number }): TerminalSize {
  return {
    columns: side(cols, LIMITS.terminalDefaultCols),
    rows: side(rows, LIMITS.terminalDefaultRows),
  };
}

function side(wanted: number, otherwise: number): number {
  return Math.min(wanted || otherwise, LIMITS.terminalMaxSide);
}
