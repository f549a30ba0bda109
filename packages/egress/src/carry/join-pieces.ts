import type { Readable } from 'node:stream';
import type { TurnBudget } from '../shares/turn-budget.ts';

/** A piece of this size is passed on by itself. */
const LARGE_BYTES = 4 * 1024;
const BUFFER_BYTES = 16 * 1024;
/** Pieces of one read that are not paced. */
const FEW = 32;

/**
 * Joins the small pieces of a body that one read brings. A body in chunks of one byte would otherwise take some 400 bytes
 * of memory for each, 100 MB a connection, as streams count bytes alone. Many pieces also wait for the sandbox' budget, and no
 * more is read meanwhile. Called before the first piece comes.
 */
export function joinPieces(body: Readable, budget: TurnBudget): void {
  const push = body.push.bind(body);
  let joined: Buffer[] = [];
  let last = Buffer.alloc(0);
  let length = 0;
  let pieces = 0;
  let isEnded = false;

  const append = (piece: Buffer) => {
    if (length + piece.length > last.length) {
      joined.push(last.subarray(0, length));
      last = Buffer.allocUnsafe(Math.max(BUFFER_BYTES, piece.length));
      length = 0;
    }
    length += piece.copy(last, length);
    pieces += 1;
  };
  const release = () => {
    const ready = [...joined, last.subarray(0, length)].filter(({ length }) => length > 0);
    [joined, last, length, pieces] = [[], Buffer.alloc(0), 0, 0];
    if (body.destroyed) return;
    for (const buffer of ready) push(buffer);
    if (isEnded) push(null);
  };
  const flush = () => {
    if (pieces <= FEW) release();
    else budget.spend(pieces, release);
  };

  body.push = (piece: Buffer | null) => {
    if (piece === null) isEnded = true;
    if (pieces === 0 && (piece === null || piece.length >= LARGE_BYTES)) return push(piece);
    if (piece === null) return true;
    // After all that this turn reads: the parser runs the ticks of each piece.
    if (pieces === 0) setImmediate(flush);
    append(piece);
    // Its reader asks for more once it has these; until then only what was received already is parsed.
    return pieces <= FEW;
  };
}
