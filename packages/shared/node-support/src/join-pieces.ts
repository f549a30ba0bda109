import type { Readable } from 'node:stream';
import type { TurnBudget } from './turn-budget.ts';

/** Size from which a piece is passed on by itself. */
const LARGE_BYTES = 4 * 1024;
const BUFFER_BYTES = 16 * 1024;
/** Most pieces of one read that are not counted towards the budget. */
const FEW = 32;

/**
 * Joins the small pieces of a body that one read contains. Otherwise each chunk of one byte would take some 400 bytes,
 * up to 100 MB a connection, because a stream's limit counts payload bytes only. Many pieces wait for the
 * budget, and reading pauses meanwhile. Call it before the first piece arrives.
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
    // After the whole read: between pieces the parser only runs next-tick callbacks.
    if (pieces === 0) setImmediate(flush);
    append(piece);
    // False stops reading until the joined pieces are consumed. Bytes already received are still parsed.
    return pieces <= FEW;
  };
}
